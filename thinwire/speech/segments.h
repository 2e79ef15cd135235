// The tokens of a window, cut at the times among them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/speech/vocabulary.h"

namespace thinwire::speech {

struct TimedTokens {
  double begin = 0;  // seconds from the beginning of the window
  double end = 0;
  std::span<const int32_t> tokens;  // with the times around them
};

struct Split {
  std::vector<TimedTokens> segments;
  int64_t frames = 0;  // from the window's beginning to that of the next one, > 0
};

// As openai/whisper has it. A window that breaks off within a segment: the next one begins where
// the last complete segment ended. One that ends with a time, or has but one segment: it begins
// after this one's `content` frames (> 0).
Split SplitAtTimes(const Vocabulary& vocabulary, std::span<const int32_t> tokens, int64_t content);

// UTF-8, bytes that are none replaced by U+FFFD; no white space at its ends.
std::string TextOf(const Vocabulary& vocabulary, std::span<const int32_t> tokens);

}  // namespace thinwire::speech
