// A tokenizer and a chat template from a GGUF file's metadata (tokenizer.*).
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "thinwire/io/gguf.h"
#include "thinwire/text/tokenizer.h"

namespace thinwire::infer {

// Keeps nothing of the file. UsageError naming the file and the key or token: a kind of tokenizer
// that is not read here, an unknown pre-tokenizer, arrays of another element type or size, ids that
// are no tokens.
std::unique_ptr<text::Tokenizer> ReadTokenizer(const io::GgufFile& file);

// tokenizer.chat_template, where the file has one. A view of the file.
std::optional<std::string_view> FindChatTemplate(const io::GgufFile& file);

}  // namespace thinwire::infer
