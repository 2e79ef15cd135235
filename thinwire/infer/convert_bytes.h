// Tokenizers that need no tokenizer.json.
#pragma once

#include <cstdint>

#include "thinwire/io/gguf.h"
#include "thinwire/io/gguf_writer.h"

namespace thinwire::infer {

// Sets tokenizer.* for a model whose tokens are bytes: 0 to 255; of a larger vocabulary 256 ends
// documents, and the others are unused. Returns `vocabulary`. Throws UsageError below 256.
int64_t DescribeBytes(int64_t vocabulary, io::GgufWriter& writer);

// Copies tokenizer.* of another file. Returns the number of its tokens, which must be `vocabulary`:
// UsageError else.
int64_t CopyTokenizer(const io::GgufFile& from, int64_t vocabulary, io::GgufWriter& writer);

}  // namespace thinwire::infer
