#include "thinwire/speech/vocabulary.h"

#include <algorithm>
#include <unordered_map>

#include "thinwire/base/error.h"
#include "thinwire/text/byte_level.h"

namespace thinwire::speech {
namespace {

// OpenAI's rule: from this many tokens on a model knows languages.
constexpr size_t kMultilingualTokens = 51865;

using Ids = std::unordered_map<std::string_view, int32_t>;

int32_t IdOf(const Ids& ids, std::string_view name, const std::string& path) {
  const auto found = ids.find(name);
  if (found == ids.end()) throw UsageError(StrCat(path, ": the vocabulary has no token ", name));
  return found->second;
}

}  // namespace

Vocabulary::Vocabulary(const WhisperTokens& tokens, const std::string& path)
    : multilingual_(tokens.tokens.size() >= kMultilingualTokens), suppressed_(tokens.suppressed) {
  Ids ids;
  for (size_t i = 0; i < tokens.tokens.size(); ++i) {
    ids.emplace(tokens.tokens[i], static_cast<int32_t>(i));
  }
  end_of_text_ = IdOf(ids, "<|endoftext|>", path);
  start_ = IdOf(ids, "<|startoftranscript|>", path);
  previous_ = IdOf(ids, "<|startofprev|>", path);
  no_speech_ = IdOf(ids, ids.contains("<|nospeech|>") ? "<|nospeech|>" : "<|nocaptions|>", path);
  no_timestamps_ = IdOf(ids, "<|notimestamps|>", path);
  translate_ = IdOf(ids, "<|translate|>", path);
  transcribe_ = IdOf(ids, "<|transcribe|>", path);
  first_timestamp_ = IdOf(ids, "<|0.00|>", path);
  if (!(end_of_text_ < start_ && start_ < translate_ && translate_ < no_timestamps_ &&
        no_timestamps_ < first_timestamp_)) {
    throw UsageError(StrCat(path, ": the special tokens are in another order than Whisper's"));
  }
  for (int32_t id = start_ + 1; id < std::min(translate_, transcribe_); ++id) {
    const std::string_view token = tokens.tokens[static_cast<size_t>(id)];
    if (token.size() > 4 && token.starts_with("<|") && token.ends_with("|>")) {
      languages_.push_back({.code = std::string(token.substr(2, token.size() - 4)), .id = id});
    }
  }
  bytes_.resize(tokens.tokens.size());
  for (size_t i = 0; i < static_cast<size_t>(end_of_text_); ++i) {
    // What is not of the alphabet stands for itself.
    if (!text::AppendByteLevel(tokens.tokens[i], &bytes_[i])) bytes_[i] = tokens.tokens[i];
  }
  for (const int32_t id : {start_, previous_, no_speech_, translate_, transcribe_}) {
    suppressed_.push_back(id);
  }
  for (const Language& language : languages_) suppressed_.push_back(language.id);
  std::sort(suppressed_.begin(), suppressed_.end());
  suppressed_.erase(std::unique(suppressed_.begin(), suppressed_.end()), suppressed_.end());
  suppressed_first_ = tokens.suppressed_first;
}

std::optional<int32_t> Vocabulary::LanguageNamed(std::string_view code) const {
  const auto found = std::ranges::find(languages_, code, &Language::code);
  if (found == languages_.end()) return std::nullopt;
  return found->id;
}

}  // namespace thinwire::speech
