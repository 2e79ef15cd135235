#include "thinwire/comm/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"

namespace thinwire::comm {
namespace {

constexpr std::pair<int, int> kGrids[] = {{1, 1}, {1, 4}, {2, 1}, {2, 2}, {3, 2},
                                          {2, 3}, {4, 2}, {1, 7}, {5, 1}};

// Parameter lists with zeros, ones, primes, multiples of the grain and one off them.
std::vector<int64_t> RandomSizes(uint64_t seed) {
  constexpr int64_t kSizes[] = {0,   1,   2,    3,    127,  128,  129,   255,   256,
                                257, 997, 4096, 4097, 7919, 8192, 12289, 65536, 104729};
  const CounterRandom random(seed);
  std::vector<int64_t> sizes(random.Bits(0) % 9);
  for (size_t i = 0; i < sizes.size(); ++i)
    sizes[i] = kSizes[random.Bits(1 + i) % std::size(kSizes)];
  return sizes;
}

// Calls check(partition, sizes, hosts, locals) for many of them.
template <typename Check>
void ForRandomPartitions(Check&& check) {
  for (const auto& [hosts, locals] : kGrids) {
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const std::vector<int64_t> sizes = RandomSizes(seed * 31 + static_cast<uint64_t>(hosts));
      SCOPED_TRACE(testing::Message() << hosts << " x " << locals << ", seed " << seed);
      check(Partition(sizes, hosts, locals), sizes, hosts, locals);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// Multiples of the grain from the start of a parameter, or the end of one.
bool IsAllowedCut(const std::vector<int64_t>& sizes, int64_t cut, int64_t grain) {
  int64_t start = 0;
  if (cut == 0) return true;
  for (const int64_t size : sizes) {
    if (cut >= start && cut <= start + size &&
        ((cut - start) % grain == 0 || cut == start + size)) {
      return true;
    }
    start += size;
  }
  return false;
}

TEST(Partition, ShardsCoverTheRegionInOrder) {
  ForRandomPartitions([](const Partition& p, const auto& sizes, int hosts, int locals) {
    EXPECT_EQ(p.size(), std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
    int64_t at = 0;
    for (int j = 0; j < locals; ++j) {
      EXPECT_EQ(p.Slice(j).begin, at);
      for (int n = 0; n < hosts; ++n) {
        EXPECT_EQ(p.Shard(j, n).begin, at);
        EXPECT_GE(p.Shard(j, n).size(), 0);
        at = p.Shard(j, n).end;
      }
      EXPECT_EQ(p.Slice(j).end, at);
    }
    EXPECT_EQ(at, p.size());
  });
}

TEST(Partition, ShardsEndOnTheGrainOfTheirParameter) {
  ForRandomPartitions([](const Partition& p, const auto& sizes, int hosts, int locals) {
    for (int j = 0; j < locals; ++j) {
      for (int n = 0; n < hosts; ++n) {
        EXPECT_TRUE(IsAllowedCut(sizes, p.Shard(j, n).end, Partition::kGrain)) << p.Shard(j, n).end;
      }
    }
  });
}

TEST(Partition, ShardsAreWithinAGrainOfTheIdeal) {
  // A cut is moved by at most half a grain, so a shard changes by at most one, whatever the sizes.
  ForRandomPartitions([](const Partition& p, const auto&, int hosts, int locals) {
    const double ideal = static_cast<double>(p.size()) / (hosts * locals);
    for (int j = 0; j < locals; ++j) {
      for (int n = 0; n < hosts; ++n) {
        EXPECT_NEAR(static_cast<double>(p.Shard(j, n).size()), ideal, Partition::kGrain + 1);
      }
    }
  });
}

TEST(Partition, RunsEndAtParametersAndShardsAndSumToTheRange) {
  ForRandomPartitions([](const Partition& p, const auto& sizes, int hosts, int locals) {
    std::set<int64_t> marks;
    int64_t start = 0;
    for (const int64_t size : sizes) marks.insert(start += size);
    for (int j = 0; j < locals; ++j) {
      for (int n = 0; n < hosts; ++n) marks.insert(p.Shard(j, n).end);
    }
    for (int j = 0; j < locals; ++j) {
      int64_t at = p.Slice(j).begin;
      for (const int64_t run : p.Runs(p.Slice(j))) {
        EXPECT_GT(run, 0);
        // No mark inside of a run, one at its end.
        EXPECT_EQ(*marks.upper_bound(at), at + run);
        at += run;
      }
      EXPECT_EQ(at, p.Slice(j).end);
      // A shard's runs are those of its slice: the fast hop restarts blocks where the slow one
      // does.
      std::vector<int64_t> of_shards;
      for (int n = 0; n < hosts; ++n) {
        const auto runs = p.Runs(p.Shard(j, n));
        of_shards.insert(of_shards.end(), runs.begin(), runs.end());
      }
      EXPECT_EQ(of_shards, p.Runs(p.Slice(j)));
    }
  });
}

TEST(Partition, SplitCutsNoBlock) {
  ForRandomPartitions([](const Partition& p, const auto&, int, int locals) {
    for (int j = 0; j < locals; ++j) {
      for (const int parts : {1, 2, 3, 7, 40}) {
        const Range range = p.Slice(j);
        int64_t at = range.begin;
        const std::vector<Range> split = p.Split(range, parts);
        EXPECT_EQ(split.size(), static_cast<size_t>(parts));
        for (const Range& part : split) {
          EXPECT_EQ(part.begin, at);
          EXPECT_GE(part.size(), 0);
          at = part.end;
          // Within its run, each cut is at a multiple of the chunk grain or at an end.
          int64_t run_start = range.begin;
          for (const int64_t run : p.Runs(range)) {
            if (at > run_start && at < run_start + run) {
              EXPECT_EQ((at - run_start) % Partition::kChunkGrain, 0) << at;
            }
            run_start += run;
          }
          EXPECT_LE(std::abs(part.size() - range.size() / parts), Partition::kChunkGrain + 1);
        }
        EXPECT_EQ(at, range.end);
      }
    }
  });
}

TEST(Partition, KnownCuts) {
  // 1000 elements for 4 shards: ideals 250, 500, 750; the grain's multiples nearest to them.
  const Partition p(std::vector<int64_t>{1000}, 2, 2);
  EXPECT_EQ(p.Shard(0, 0), (Range{0, 256}));
  EXPECT_EQ(p.Shard(0, 1), (Range{256, 512}));
  EXPECT_EQ(p.Shard(1, 0), (Range{512, 768}));
  EXPECT_EQ(p.Shard(1, 1), (Range{768, 1000}));
  EXPECT_EQ(p.Slice(1), (Range{512, 1000}));
  // The grain counts from the start of the second parameter, at 100.
  const Partition q(std::vector<int64_t>{100, 900}, 2, 1);
  EXPECT_EQ(q.Shard(0, 0), (Range{0, 484}));
  EXPECT_EQ(q.Runs(q.Slice(0)), (std::vector<int64_t>{100, 384, 516}));
}

TEST(Partition, EmptyRegion) {
  const Partition none({}, 3, 2);
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.Slice(1).size(), 0);
  EXPECT_TRUE(none.Runs(none.Slice(1)).empty());
  EXPECT_EQ(none.Split(none.Slice(0), 3).size(), 3u);
  EXPECT_EQ(Partition(std::vector<int64_t>{0, 0}, 2, 2).size(), 0);
  EXPECT_EQ(Partition().size(), 0);
}

TEST(Partition, HugeAndBadSizes) {
  const Partition huge(std::vector<int64_t>{INT64_MAX / 2}, 3, 5);
  EXPECT_EQ(huge.Shard(4, 2).end, INT64_MAX / 2);
  EXPECT_NEAR(static_cast<double>(huge.Shard(0, 0).size()), static_cast<double>(INT64_MAX / 30),
              2048);
  EXPECT_THROW(Partition(std::vector<int64_t>{INT64_MAX, 1}, 2, 2), UsageError);
  EXPECT_THROW(Partition(std::vector<int64_t>{-1}, 2, 2), InternalError);
}

}  // namespace
}  // namespace thinwire::comm
