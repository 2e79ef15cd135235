// Byte-pair merging: of all neighbours that may be merged the best pair first, of equal ones the
// leftmost, until none is left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace thinwire::text {

constexpr uint32_t kNoMerge = UINT32_MAX;

// What two neighbours become. The lowest priority is merged first.
struct PairMerge {
  uint32_t priority = kNoMerge;
  int32_t id = -1;
};

struct Symbol {
  int32_t id = -1;
  uint32_t begin = 0;  // in the word
  uint32_t size = 0;
};

// One per thread; keeps its memory from word to word.
class BytePairMerger {
 public:
  // Begins a word.
  void Clear() { symbols_.clear(); }
  void Add(const Symbol& symbol) { symbols_.push_back(symbol); }

  // rule(left symbol, right symbol) -> PairMerge. O(n log n) calls and steps for n symbols.
  template <typename Rule>
  void Run(const Rule& rule) {
    if (symbols_.size() < 2) return;
    if (symbols_.size() <= kShort) {
      RunShort(rule);
    } else {
      RunLong(rule);
    }
  }

  std::span<const Symbol> symbols() const { return symbols_; }

 private:
  // Up to this many symbols a scan of all pairs per merge beats a heap: 24 symbols are 23
  // priorities, one cache line and a half.
  static constexpr size_t kShort = 24;
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Link {
    uint32_t previous, next;  // kNone at the ends
  };

  // A pair that may be merged, unless one of the two was merged otherwise since.
  struct Candidate {
    uint64_t order;  // priority, then the place of the left one
    uint32_t right;
    uint32_t size;  // of both: tells whether they are still what they were
    int32_t id;
    bool operator>(const Candidate& other) const { return order > other.order; }
  };

  template <typename Rule>
  void RunShort(const Rule& rule) {
    pairs_.clear();
    for (size_t i = 0; i + 1 < symbols_.size(); ++i) {
      pairs_.push_back(rule(symbols_[i], symbols_[i + 1]));
    }
    while (!pairs_.empty()) {
      const auto best = std::ranges::min_element(pairs_, {}, &PairMerge::priority);
      if (best->priority == kNoMerge) return;
      const auto i = static_cast<size_t>(best - pairs_.begin());
      symbols_[i].id = best->id;
      symbols_[i].size += symbols_[i + 1].size;
      symbols_.erase(symbols_.begin() + static_cast<ptrdiff_t>(i) + 1);
      pairs_.erase(best);
      if (i > 0) pairs_[i - 1] = rule(symbols_[i - 1], symbols_[i]);
      if (i < pairs_.size()) pairs_[i] = rule(symbols_[i], symbols_[i + 1]);
    }
  }

  template <typename Rule>
  void RunLong(const Rule& rule) {
    const auto n = static_cast<uint32_t>(symbols_.size());
    links_.resize(n);
    heap_.clear();
    for (uint32_t i = 0; i < n; ++i) {
      links_[i] = {i == 0 ? kNone : i - 1, i + 1 == n ? kNone : i + 1};
      if (i + 1 < n) Consider(rule, i, i + 1);
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const Candidate best = heap_.back();
      heap_.pop_back();
      const auto left = static_cast<uint32_t>(best.order);
      if (symbols_[left].size == 0 || links_[left].next != best.right ||
          symbols_[left].size + symbols_[best.right].size != best.size) {
        continue;
      }
      Join(left, best);
      const uint32_t previous = links_[left].previous;
      const uint32_t next = links_[left].next;
      if (previous != kNone && Consider(rule, previous, left)) Push();
      if (next != kNone && Consider(rule, left, next)) Push();
    }
    std::erase_if(symbols_, [](const Symbol& symbol) { return symbol.size == 0; });
  }

  void Join(uint32_t left, const Candidate& best) {
    symbols_[left].id = best.id;
    symbols_[left].size = best.size;
    symbols_[best.right].size = 0;
    links_[left].next = links_[best.right].next;
    if (links_[left].next != kNone) links_[links_[left].next].previous = left;
  }

  template <typename Rule>
  bool Consider(const Rule& rule, uint32_t left, uint32_t right) {
    const PairMerge merge = rule(symbols_[left], symbols_[right]);
    if (merge.priority == kNoMerge) return false;
    heap_.push_back({uint64_t{merge.priority} << 32 | left, right,
                     symbols_[left].size + symbols_[right].size, merge.id});
    return true;
  }
  void Push() { std::push_heap(heap_.begin(), heap_.end(), std::greater<>()); }

  std::vector<Symbol> symbols_;
  std::vector<PairMerge> pairs_;
  std::vector<Link> links_;
  std::vector<Candidate> heap_;
};

}  // namespace thinwire::text
