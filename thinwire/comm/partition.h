// How one region of a flat is cut: into L slices, each into N shards. Rank (host n, local j) owns
// shard (j, n), so both hops of both paths move contiguous memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thinwire::comm {

// Elements [begin, end) of a region.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

class Partition {
 public:
  // Shards end on multiples of this many elements from the start of a parameter, or at its end.
  static constexpr int64_t kGrain = 128;

  // A region without elements on one host and one rank.
  Partition() : Partition({}, 1, 1) {}
  // `sizes` are the element counts of the region's parameters, in order; any may be 0.
  Partition(std::span<const int64_t> sizes, int hosts, int ranks_per_host);

  int64_t size() const { return starts_.back(); }
  Range Slice(int local) const;
  Range Shard(int local, int host) const;

  // The lengths of the stretches of `range` between starts of parameters and ends of shards, where
  // the blocks of a codec restart; without empty ones.
  std::vector<int64_t> Runs(Range range) const;

  // `range` cut into `parts` of about equal size at multiples of kChunkGrain from the start of a
  // run, so that no block of a codec (at most kChunkGrain elements) is cut. Parts may be empty.
  static constexpr int64_t kChunkGrain = 4096;
  std::vector<Range> Split(Range range, int parts) const;
  // One of them, without the others.
  Range Part(Range range, int parts, int part) const;

  bool operator==(const Partition&) const = default;

 private:
  // The multiple of `grain` from the start of its parameter (or run), or the end of it, nearest to
  // `position`; `marks` are ascending and include both ends of the region.
  static int64_t NearestCut(std::span<const int64_t> marks, int64_t position, int64_t grain);

  int hosts_ = 1;
  std::vector<int64_t> starts_;  // of each parameter, then the size of the region
  std::vector<int64_t> cuts_;    // starts of the shards j * hosts + n, then the size
  std::vector<int64_t> marks_;   // starts_ and cuts_ merged, ascending, without repeats
};

}  // namespace thinwire::comm
