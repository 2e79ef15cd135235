#include "thinwire/comm/partition.h"

#include <algorithm>

#include "thinwire/base/checked.h"

namespace thinwire::comm {

int64_t Partition::NearestCut(std::span<const int64_t> marks, int64_t position, int64_t grain) {
  const auto above = std::upper_bound(marks.begin(), marks.end(), position);
  if (above == marks.end()) return marks.back();
  if (above == marks.begin()) return marks.front();
  const int64_t start = *(above - 1);
  const int64_t low = start + (position - start) / grain * grain;
  const int64_t high = std::min(low + grain, *above);
  return position - low <= high - position ? low : high;
}

Partition::Partition(std::span<const int64_t> sizes, int hosts, int ranks_per_host)
    : hosts_(hosts) {
  THINWIRE_CHECK(hosts >= 1 && ranks_per_host >= 1);
  starts_.push_back(0);
  for (const int64_t size : sizes) {
    THINWIRE_CHECK(size >= 0, size);
    starts_.push_back(CheckedAdd(starts_.back(), size, "elements of a unit"));
  }
  const int64_t world = int64_t{hosts} * ranks_per_host;
  for (int64_t i = 0; i < world; ++i) {
    // i * size / world without overflow of the product.
    const int64_t ideal = size() / world * i + size() % world * i / world;
    cuts_.push_back(NearestCut(starts_, ideal, kGrain));
  }
  cuts_.push_back(size());
  marks_.resize(starts_.size() + cuts_.size());
  std::merge(starts_.begin(), starts_.end(), cuts_.begin(), cuts_.end(), marks_.begin());
  marks_.erase(std::unique(marks_.begin(), marks_.end()), marks_.end());
}

Range Partition::Slice(int local) const {
  const size_t first = static_cast<size_t>(local) * static_cast<size_t>(hosts_);
  return {cuts_[first], cuts_[first + static_cast<size_t>(hosts_)]};
}

Range Partition::Shard(int local, int host) const {
  const size_t index = static_cast<size_t>(local * hosts_ + host);
  return {cuts_[index], cuts_[index + 1]};
}

std::vector<int64_t> Partition::Runs(Range range) const {
  std::vector<int64_t> runs;
  int64_t at = range.begin;
  auto mark = std::upper_bound(marks_.begin(), marks_.end(), at);
  while (at < range.end) {
    const int64_t next = std::min(mark == marks_.end() ? range.end : *mark++, range.end);
    runs.push_back(next - at);
    at = next;
  }
  return runs;
}

std::vector<Range> Partition::Split(Range range, int parts) const {
  std::vector<Range> result;
  for (int i = 0; i < parts; ++i) result.push_back(Part(range, parts, i));
  return result;
}

Range Partition::Part(Range range, int parts, int part) const {
  // The nearest cut rises with what it is nearest to, so parts follow one another.
  const auto start_of = [&](int i) {
    if (i <= 0) return range.begin;
    if (i >= parts) return range.end;
    const int64_t ideal = range.begin + range.size() / parts * i + range.size() % parts * i / parts;
    return std::clamp(NearestCut(marks_, ideal, kChunkGrain), range.begin, range.end);
  };
  return {start_of(part), start_of(part + 1)};
}

}  // namespace thinwire::comm
