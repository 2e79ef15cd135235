// The merges of a byte-level vocabulary: which two tokens become which, and in what order.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/text/byte_pair.h"
#include "thinwire/text/hash.h"
#include "thinwire/text/vocabulary.h"

namespace thinwire::text {

class MergeTable {
 public:
  // `merges` as VocabularySource has them. UsageError naming a merge that is no pair of tokens
  // whose concatenation is a token. A merge that would make a control or an unused token is left
  // out: text must not become one.
  MergeTable(const Vocabulary& vocabulary, std::span<const std::string_view> merges);

  PairMerge Find(int32_t left, int32_t right) const {
    const size_t mask = slots_.size() - 1;
    for (size_t at = HashOf(left, right) & mask;; at = (at + 1) & mask) {
      const Slot& slot = slots_[at];
      if (slot.left == left && slot.right == right) return slot.merge;
      if (slot.left == kNoToken) return {};
    }
  }

 private:
  struct Slot {
    int32_t left = kNoToken;
    int32_t right = kNoToken;
    PairMerge merge;
  };

  static uint64_t HashOf(int32_t left, int32_t right) {
    return MixBits(uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right));
  }
  void Insert(const Slot& merge);

  std::vector<Slot> slots_;  // open addressing, a power of two, at most two thirds used
};

}  // namespace thinwire::text
