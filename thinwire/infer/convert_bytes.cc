#include "thinwire/infer/convert_bytes.h"

#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/text/byte_level.h"
#include "thinwire/text/vocabulary.h"

namespace thinwire::infer {
namespace {

constexpr int64_t kBytes = 256;

}  // namespace

int64_t DescribeBytes(int64_t vocabulary, io::GgufWriter& writer) {
  if (vocabulary < kBytes) {
    throw UsageError(StrCat("tokenizer: bytes need a vocabulary of ", kBytes,
                            " at least; the model has ", vocabulary, " tokens"));
  }
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  const auto add = [&](std::string token, text::TokenType type) {
    tokens.push_back(std::move(token));
    types.push_back(static_cast<int32_t>(type));
  };
  for (int64_t id = 0; id < vocabulary; ++id) {
    if (id < kBytes) {
      add(text::ByteLevelToken(std::string(1, static_cast<char>(id))), text::TokenType::kNormal);
    } else if (id == kBytes) {
      add("<|endoftext|>", text::TokenType::kControl);
    } else {
      add(StrCat("[PAD", id, "]"), text::TokenType::kUnused);
    }
  }
  writer.Set<std::string_view>("tokenizer.ggml.model", "gpt2");
  writer.Set<std::string_view>("tokenizer.ggml.pre", "gpt-2");
  writer.SetStrings("tokenizer.ggml.tokens", tokens);
  writer.SetArray<int32_t>("tokenizer.ggml.token_type", types);
  writer.SetStrings("tokenizer.ggml.merges", std::vector<std::string>());
  if (vocabulary > kBytes) {
    for (const char* which : {"bos", "eos"}) {  // it stands before every document but the first
      writer.Set(StrCat("tokenizer.ggml.", which, "_token_id"), static_cast<uint32_t>(kBytes));
    }
  }
  writer.Set("tokenizer.ggml.add_bos_token", false);
  writer.Set("tokenizer.ggml.add_eos_token", false);
  return vocabulary;
}

int64_t CopyTokenizer(const io::GgufFile& from, int64_t vocabulary, io::GgufWriter& writer) {
  const auto tokens = static_cast<int64_t>(from.GetStrings("tokenizer.ggml.tokens").size());
  if (tokens != vocabulary) {
    throw UsageError(StrCat(from.path(), ": has ", tokens, " tokens, the model ", vocabulary,
                            ": its tokenizer is another one"));
  }
  for (const io::GgufEntry& entry : from.entries()) {
    if (entry.key.starts_with("tokenizer.")) writer.Add(entry);
  }
  return tokens;
}

}  // namespace thinwire::infer
