#include "thinwire/infer/kv_cache.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace thinwire::infer {
namespace {

using kernels::kPagePositions;

DecoderSpec Spec() {
  DecoderSpec spec;
  spec.layers = 2;
  spec.kv_heads = 1;
  spec.head_dim = 32;
  return spec;
}

class Cache {
 public:
  Cache(int64_t sequences, int64_t positions, kernels::KvType type = kernels::KvType::kF16)
      : cache(Spec(), {.sequences = sequences, .positions = positions, .type = type}, plan_),
        memory_(plan_.Take()) {}

  // Stores `value` as key and value of the last position.
  void StoreLast(int64_t sequence, float value) {
    const std::vector<float> row(32, value);
    for (int64_t layer = 0; layer < 2; ++layer) {
      kernels::StoreKeysValues({}, cache.heads(), cache.Layer(layer, sequence),
                               cache.Length(sequence) - 1, 1, row.data(), row.data(), 32);
    }
  }
  // The value at a position, from the second layer: what a query finds that sees it alone.
  float Value(int64_t sequence, int64_t position) {
    const std::vector<float> query(32);
    std::vector<float> out(32);
    std::vector<float> scratch(static_cast<size_t>(kernels::AttentionScratch(cache.heads())));
    kernels::Attend({}, cache.heads(), cache.Layer(1, sequence), 0,
                    {.queries = query.data(),
                     .out = out.data(),
                     .stride = 32,
                     .tokens = 1,
                     .first = position,
                     .window = 1},
                    scratch);
    return out[3];
  }

 private:
  MemoryPlan plan_;

 public:
  KvCache cache;

 private:
  PlannedMemory memory_;
};

TEST(KvCache, PagesAreTakenWithGrowthAndGivenBack) {
  Cache c(2, 4 * kPagePositions);
  EXPECT_EQ(c.cache.free_pages(), 4);
  EXPECT_TRUE(c.cache.Extend(0, 1));
  EXPECT_TRUE(c.cache.Extend(0, kPagePositions - 1));
  EXPECT_EQ(c.cache.free_pages(), 3);
  EXPECT_TRUE(c.cache.Extend(0, 2 * kPagePositions));
  EXPECT_TRUE(c.cache.Extend(1, kPagePositions));
  EXPECT_EQ(c.cache.free_pages(), 0);
  EXPECT_FALSE(c.cache.Extend(0, 1));
  EXPECT_EQ(c.cache.Length(0), 3 * kPagePositions);
  std::set<int32_t> pages;
  for (const int64_t sequence : {0, 1}) {
    for (const int32_t page : c.cache.Layer(0, sequence).pages) pages.insert(page);
  }
  EXPECT_EQ(pages.size(), 4u);
  c.cache.Truncate(0, kPagePositions + 1);
  EXPECT_EQ(c.cache.free_pages(), 1);
  c.cache.Truncate(0, 0);
  c.cache.Truncate(1, 0);
  EXPECT_EQ(c.cache.free_pages(), 4);
}

// Each goes on as if it were alone; the pages before are there once.
class KvCacheOf : public testing::TestWithParam<kernels::KvType> {};

TEST_P(KvCacheOf, ASharedBeginningIsKeptOnceAndNeverOverwritten) {
  Cache c(3, 8 * kPagePositions, GetParam());
  for (int64_t i = 0; i < kPagePositions + 5; ++i) {
    ASSERT_TRUE(c.cache.Extend(0, 1));
    c.StoreLast(0, static_cast<float>(i));
  }
  c.cache.Share(0, 1, kPagePositions + 5);
  c.cache.Share(0, 2, kPagePositions + 2);
  EXPECT_EQ(c.cache.free_pages(), 6);
  for (const int64_t sequence : {1, 2, 0}) {
    ASSERT_TRUE(c.cache.Extend(sequence, 1));
    c.StoreLast(sequence, static_cast<float>(100 + sequence));
  }
  EXPECT_EQ(c.cache.free_pages(), 4);  // the last to go on keeps the page
  const float near = GetParam() == kernels::KvType::kQ8_0 ? 0.03f : 0;  // scales are fp16
  EXPECT_NEAR(c.Value(0, kPagePositions + 5), 100, near);
  EXPECT_NEAR(c.Value(1, kPagePositions + 5), 101, near);
  EXPECT_NEAR(c.Value(2, kPagePositions + 2), 102, near);
  EXPECT_NEAR(c.Value(0, kPagePositions + 2), static_cast<float>(kPagePositions + 2), near);
  for (const int64_t sequence : {0, 1, 2}) {
    for (int64_t i = 0; i < kPagePositions + 2; ++i) {
      EXPECT_NEAR(c.Value(sequence, i), static_cast<float>(i), near) << sequence;
    }
  }
  for (const int64_t sequence : {0, 1, 2}) c.cache.Truncate(sequence, 0);
  EXPECT_EQ(c.cache.free_pages(), 8);
}

INSTANTIATE_TEST_SUITE_P(Types, KvCacheOf,
                         testing::Values(kernels::KvType::kF32, kernels::KvType::kF16,
                                         kernels::KvType::kQ8_0),
                         [](const auto& of) { return std::string(kernels::NameOf(of.param)); });

TEST(KvCache, APageOfItsOwnIsCountedBeforeItIsPromised) {
  Cache c(2, 2 * kPagePositions);
  ASSERT_TRUE(c.cache.Extend(0, kPagePositions + 1));
  c.cache.Share(0, 1, kPagePositions + 1);
  EXPECT_FALSE(c.cache.Extend(1, 1));
  EXPECT_EQ(c.cache.Length(1), kPagePositions + 1);
  c.cache.Truncate(0, 0);
  EXPECT_TRUE(c.cache.Extend(1, 1));
}

TEST(KvCache, CapacityMustBeAboveZero) {
  MemoryPlan plan;
  EXPECT_THROW(KvCache(Spec(), {.sequences = 0, .positions = 1}, plan), UsageError);
  EXPECT_THROW(KvCache(Spec(), {.sequences = 1, .positions = 0}, plan), UsageError);
  EXPECT_THROW(KvCache(Spec(), {.sequences = 1, .positions = int64_t{1} << 60}, plan), UsageError);
}

}  // namespace
}  // namespace thinwire::infer
