// Splits a text into words.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "thinwire/text/regex.h"

namespace thinwire::text {

class PreTokenizer {
 public:
  // Expressions applied in turn, as PreTokenizerRule has them; none: a text is one word.
  explicit PreTokenizer(std::span<const std::string_view> expressions);

  // Calls emit(std::string_view) for each word of `text`, which must be well-formed UTF-8. The
  // words are views of the text, none is empty, and together they are the text.
  template <typename Emit>
  void Split(std::string_view text, RegexMemory* memory, Emit&& emit) const {
    if (!text.empty()) SplitFrom(0, text, memory, emit);
  }

 private:
  template <typename Emit>
  void SplitFrom(size_t level, std::string_view text, RegexMemory* memory, Emit& emit) const {
    if (level == regexes_.size()) {
      emit(text);
      return;
    }
    size_t at = 0;    // of what was not handed on yet
    size_t from = 0;  // of the next search; ahead of `at` after a match of nothing
    RegexMatch match;
    while (from <= text.size() && regexes_[level].Find(text, from, memory, &match)) {
      if (match.begin > at) {
        SplitFrom(level + 1, text.substr(at, match.begin - at), memory, emit);
      }
      at = match.begin;
      from = match.end;
      if (match.end > match.begin) {
        SplitFrom(level + 1, text.substr(at, match.end - at), memory, emit);
        at = match.end;
      } else {
        from = AfterCharacter(text, match.end);
      }
      if (at == text.size()) return;
    }
    if (at < text.size()) SplitFrom(level + 1, text.substr(at), memory, emit);
  }

  static size_t AfterCharacter(std::string_view text, size_t at) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
    return at;
  }

  std::vector<Regex> regexes_;
};

}  // namespace thinwire::text
