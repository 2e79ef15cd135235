// The tokenizer of a Hugging Face model as GGUF metadata.
#pragma once

#include <cstdint>
#include <string>

#include "thinwire/infer/convert_source.h"
#include "thinwire/io/gguf_writer.h"

namespace thinwire::infer {

// Sets tokenizer.*: from tokenizer.json, or from vocab.json and merges.txt of older models, with
// what tokenizer_config.json and config.json say of special tokens and chats. BPE on bytes and BPE
// as SentencePiece has it are known; of the latter, scores are the order of the merges.
//
// `vocabulary` is the model's number of tokens; ids without a token become unused ones.
// `pre_tokenizer` is the name of how words are split; empty: found from tokenizer.json.
// Returns the number of tokens. Throws UsageError naming file and key when there is no tokenizer,
// or one that would split text differently in GGUF.
int64_t DescribeTokenizer(const ModelSource& model, int64_t vocabulary,
                          const std::string& pre_tokenizer, io::GgufWriter& writer);

}  // namespace thinwire::infer
