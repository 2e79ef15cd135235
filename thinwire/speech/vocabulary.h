// What Whisper's tokens mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/speech/whisper_model.h"

namespace thinwire::speech {

class Vocabulary {
 public:
  // Throws UsageError naming `path` and a special token that is missing or out of place.
  Vocabulary(const WhisperTokens& tokens, const std::string& path);

  int32_t end_of_text() const { return end_of_text_; }
  int32_t start() const { return start_; }          // <|startoftranscript|>
  int32_t previous() const { return previous_; }    // <|startofprev|>
  int32_t no_speech() const { return no_speech_; }  // <|nospeech|> or <|nocaptions|>
  int32_t no_timestamps() const { return no_timestamps_; }
  int32_t translate() const { return translate_; }
  int32_t transcribe() const { return transcribe_; }
  // <|0.00|>; the tokens from here on are steps of a fiftieth of a second.
  int32_t first_timestamp() const { return first_timestamp_; }
  int32_t size() const { return static_cast<int32_t>(bytes_.size()); }

  bool IsTimestamp(int32_t id) const { return id >= first_timestamp_; }
  // Neither text nor of the end of a text nor a time.
  bool IsText(int32_t id) const { return id < end_of_text_; }

  // Models for English only know of no language: their vocabularies are one token shorter.
  bool multilingual() const { return multilingual_; }
  struct Language {
    std::string code;  // "en"
    int32_t id;
  };
  const std::vector<Language>& languages() const { return languages_; }
  // By its code.
  std::optional<int32_t> LanguageNamed(std::string_view code) const;

  // The bytes that a token of text stands for; those of a character may be spread over several.
  const std::string& BytesOf(int32_t id) const { return bytes_[static_cast<size_t>(id)]; }

  // Tokens never to produce, those of tasks and the like among them, sorted.
  const std::vector<int32_t>& suppressed() const { return suppressed_; }
  const std::vector<int32_t>& suppressed_first() const { return suppressed_first_; }

 private:
  int32_t end_of_text_, start_, previous_, no_speech_, no_timestamps_, translate_, transcribe_,
      first_timestamp_;
  bool multilingual_;
  std::vector<std::string> bytes_;
  std::vector<Language> languages_;
  std::vector<int32_t> suppressed_, suppressed_first_;
};

}  // namespace thinwire::speech
