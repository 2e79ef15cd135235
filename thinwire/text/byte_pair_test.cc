#include "thinwire/text/byte_pair.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>

#include "thinwire/text/tokenizer.h"

namespace thinwire::text {
namespace {

// Ids below 6 with merges made up by a hash; what is merged is in turn one of a hundred ids.
PairMerge MadeUp(const Symbol& left, const Symbol& right) {
  const uint64_t hash = MixBits(static_cast<uint64_t>(left.id * 131 + right.id + 7));
  if (hash % 3 == 0) return {};
  return {static_cast<uint32_t>(hash >> 8) % 50, static_cast<int32_t>(hash >> 40) % 100};
}

// One merge after the other over the whole word.
std::vector<Symbol> ByDefinition(std::vector<Symbol> symbols) {
  while (true) {
    PairMerge best;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const PairMerge merge = MadeUp(symbols[i], symbols[i + 1]);
      if (merge.priority < best.priority) best = merge, at = i;
    }
    if (best.priority == kNoMerge) return symbols;
    symbols[at].id = best.id;
    symbols[at].size += symbols[at + 1].size;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

TEST(BytePairMerger, EveryLengthMergesByDefinition) {
  std::mt19937 random(1);
  BytePairMerger merger;
  for (uint32_t length = 0; length < 80; ++length) {
    for (int round = 0; round < 20; ++round) {
      std::vector<Symbol> symbols;
      merger.Clear();
      for (uint32_t i = 0; i < length; ++i) {
        symbols.push_back({static_cast<int32_t>(random() % 6), i, 1});
        merger.Add(symbols.back());
      }
      merger.Run(MadeUp);
      const std::vector<Symbol> expected = ByDefinition(symbols);
      ASSERT_EQ(merger.symbols().size(), expected.size()) << length;
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(merger.symbols()[i].id, expected[i].id) << length;
        ASSERT_EQ(merger.symbols()[i].begin, expected[i].begin);
        ASSERT_EQ(merger.symbols()[i].size, expected[i].size);
      }
    }
  }
}

// A quadratic merger would need minutes; this one takes a tenth of a second without optimization.
TEST(BytePairMerger, AHundredThousandEqualLetters) {
  BytePairMerger merger;
  for (uint32_t i = 0; i < 100000; ++i) merger.Add({0, i, 1});
  size_t calls = 0;
  merger.Run([&](const Symbol& left, const Symbol& right) -> PairMerge {
    ++calls;
    if (left.id != right.id || left.id == 4) return {};
    return {static_cast<uint32_t>(left.id), left.id + 1};
  });
  EXPECT_EQ(merger.symbols().size(), 100000u / 16);
  EXPECT_LT(calls, 400000u);
}

}  // namespace
}  // namespace thinwire::text
