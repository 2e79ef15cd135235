// How one region of a flat is cut: into L slices, each into N shards. Rank (host n, local j) owns
// shard (j, n), so both hops of both paths move contiguous memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thinwire::comm {

struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

class Partition {
 public:
  // Shards end on multiples of this many elements from the start of a parameter.
  static constexpr int64_t kGrain = 128;

  // `sizes` are the element counts of the region's parameters, in order; any may be 0.
  Partition(std::span<const int64_t> sizes, int hosts, int ranks_per_host);

  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  Range Slice(int local) const;
  Range Shard(int local, int host) const;

  // The lengths of the stretches of different parameters in `range`, without empty ones.
  std::vector<int64_t> Runs(Range range) const;

 private:
  int hosts_ = 1;
  std::vector<int64_t> starts_;  // of each parameter, then size()
  std::vector<int64_t> ends_;    // of shard j * hosts + n
};

}  // namespace thinwire::comm
