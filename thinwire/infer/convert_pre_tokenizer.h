// How a tokenizer.json splits a text into words before merging, by the name that GGUF has for it.
#pragma once

#include <string>

#include "thinwire/infer/convert_json.h"

namespace thinwire::infer {

// Of byte-level BPE. Throws UsageError naming the part of `tokenizer` that has no such name.
std::string PreTokenizerNameOf(const JsonView& tokenizer);

// Whether a part of this type ("ByteLevel", "Metaspace") is in `key` of `tokenizer`, by itself or
// in a sequence; `found` receives it.
bool HasPart(const JsonView& tokenizer, std::string_view key, std::string_view type,
             const Json** found = nullptr);

}  // namespace thinwire::infer
