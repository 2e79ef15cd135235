#include "thinwire/infer/vocabulary_from_gguf.h"

#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/text/pre_tokenizer_names.h"

namespace thinwire::infer {
namespace {

using text::TokenizerKind;

std::string Key(std::string_view name) { return StrCat("tokenizer.ggml.", name); }

TokenizerKind KindOf(const io::GgufFile& file) {
  const auto model = file.Get<std::string_view>(Key("model"));
  if (model == "gpt2") return TokenizerKind::kByteLevelBpe;
  if (model == "llama") return TokenizerKind::kSentencePieceBpe;
  if (model == "t5") return TokenizerKind::kUnigram;
  throw UsageError(StrCat(file.path(), ": ", Key("model"), ": '", model,
                          "' is not among those that are read here: gpt2, llama, t5"));
}

int32_t IdOf(const io::GgufFile& file, std::string_view name, size_t tokens) {
  const auto last = static_cast<int64_t>(tokens) - 1;
  return static_cast<int32_t>(file.FindInteger(Key(name), 0, last).value_or(text::kNoToken));
}

bool Flag(const io::GgufFile& file, std::string_view name, bool otherwise) {
  return file.Find<bool>(Key(name)).value_or(otherwise);
}

// T5's own way of writing characters, applied before anything is looked up.
void RefuseCharacterMap(const io::GgufFile& file) {
  const std::string key = Key("precompiled_charsmap");
  const io::GgufEntry* entry = file.FindEntry(key);
  if (entry == nullptr || entry->value.empty()) return;
  throw UsageError(StrCat(file.path(), ": ", key,
                          ": vocabularies that rewrite characters first are not read here"));
}

}  // namespace

std::unique_ptr<text::Tokenizer> ReadTokenizer(const io::GgufFile& file) {
  text::VocabularySource source;
  source.kind = KindOf(file);
  const bool byte_level = source.kind == TokenizerKind::kByteLevelBpe;
  const std::vector<std::string_view> tokens = file.GetStrings(Key("tokens"));
  std::vector<int32_t> types;
  std::vector<std::string_view> merges;
  std::vector<float> scores;
  if (const auto found = file.FindArray<int32_t>(Key("token_type"))) types = found->ToVector();
  bool add_bos = source.kind == TokenizerKind::kSentencePieceBpe;
  if (byte_level) {
    merges = file.GetStrings(Key("merges"));
    source.pre_tokenizer = file.Find<std::string_view>(Key("pre")).value_or("");
  } else {
    scores = file.GetArray<float>(Key("scores")).ToVector();
    RefuseCharacterMap(file);
  }
  source.tokens = tokens;
  source.types = types;
  source.merges = merges;
  source.scores = scores;
  source.ids = {.bos = IdOf(file, "bos_token_id", tokens.size()),
                .eos = IdOf(file, "eos_token_id", tokens.size()),
                .unknown = IdOf(file, "unknown_token_id", tokens.size()),
                .padding = IdOf(file, "padding_token_id", tokens.size()),
                .eot = IdOf(file, "eot_token_id", tokens.size()),
                .eom = IdOf(file, "eom_token_id", tokens.size())};
  try {
    if (byte_level) add_bos = text::FindPreTokenizer(source.pre_tokenizer).add_bos;
    source.add_bos = Flag(file, "add_bos_token", add_bos);
    source.add_eos = Flag(file, "add_eos_token", source.kind == TokenizerKind::kUnigram);
    source.add_space_prefix = !byte_level && Flag(file, "add_space_prefix", true);
    return std::make_unique<text::Tokenizer>(source);
  } catch (const UsageError& error) {
    throw UsageError(StrCat(file.path(), ": ", error.what()));
  }
}

std::optional<std::string_view> FindChatTemplate(const io::GgufFile& file) {
  return file.Find<std::string_view>("tokenizer.chat_template");
}

}  // namespace thinwire::infer
