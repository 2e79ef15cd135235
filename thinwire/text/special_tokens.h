// Tokens that are found in a text before it is split: control tokens such as "<|im_start|>" and
// user-defined ones.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "thinwire/text/prefix_index.h"
#include "thinwire/text/vocabulary.h"

namespace thinwire::text {

struct SpecialMatch {
  size_t begin = 0;
  size_t size = 0;
  int32_t id = kNoToken;  // kNoToken: nothing found
};

class SpecialTokens {
 public:
  // `vocabulary` must outlive this.
  explicit SpecialTokens(const Vocabulary& vocabulary);

  // The first one at or after `from`, of those that begin there the longest. Without `control` only
  // user-defined tokens: a user's text cannot forge the end of a turn.
  SpecialMatch Find(std::string_view text, size_t from, bool control) const;

 private:
  SpecialMatch LongestAt(std::string_view text, size_t begin, bool control) const;

  const Vocabulary& vocabulary_;
  PrefixIndex index_;
  std::array<uint8_t, 256> user_, any_;  // whether one begins with this byte
};

}  // namespace thinwire::text
