#include "thinwire/infer/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "thinwire/base/checked.h"

namespace thinwire::infer {

using kernels::kPagePositions;

int64_t KvCache::PagesFor(int64_t positions) {
  return positions / kPagePositions + (positions % kPagePositions != 0 ? 1 : 0);
}

KvCache::KvCache(const DecoderSpec& spec, const KvCapacity& capacity, MemoryPlan& plan)
    : layers_(spec.layers),
      heads_{.kv_heads = spec.kv_heads, .dim = spec.head_dim, .type = capacity.type},
      page_bytes_(kernels::PageBytes(heads_)),
      pages_(PagesFor(capacity.positions)) {
  if (capacity.sequences < 1 || capacity.positions < 1 || pages_ > INT32_MAX) {
    throw UsageError(StrCat("context: ", capacity.positions, " positions for ", capacity.sequences,
                            " sequences; at least 1 of each is needed"));
  }
  const std::string what = "keys and values";
  const int64_t of_layer = CheckedMul(pages_, page_bytes_, what);
  plan.Add(what, CheckedMul(layers_, of_layer, what), memory_);
  sequences_.resize(static_cast<size_t>(capacity.sequences));
  for (Sequence& sequence : sequences_) plan.Add("tables of pages", pages_, sequence.pages);
  users_.assign(static_cast<size_t>(pages_), 0);
  free_.resize(static_cast<size_t>(pages_));
  for (int64_t page = 0; page < pages_; ++page) {
    free_[static_cast<size_t>(page)] = static_cast<int32_t>(pages_ - 1 - page);
  }
}

const KvCache::Sequence& KvCache::At(int64_t sequence) const {
  THINWIRE_CHECK(sequence >= 0 && sequence < sequences(), "sequence ", sequence, " of ",
                 sequences());
  return sequences_[static_cast<size_t>(sequence)];
}

int32_t KvCache::TakePage() {
  THINWIRE_CHECK(!free_.empty());
  const int32_t page = free_.back();
  free_.pop_back();
  users_[static_cast<size_t>(page)] = 1;
  return page;
}

void KvCache::DropPage(int32_t page) {
  if (--users_[static_cast<size_t>(page)] == 0) free_.push_back(page);
}

// Of several sequences: what one stores in it must not reach the others.
bool KvCache::SharesLastPage(const Sequence& sequence) const {
  if (sequence.length % kPagePositions == 0) return false;
  return users_[static_cast<size_t>(sequence.pages[static_cast<size_t>(sequence.used() - 1)])] > 1;
}

void KvCache::OwnLastPage(Sequence& sequence) {
  int32_t& last = sequence.pages[static_cast<size_t>(sequence.used() - 1)];
  const int32_t own = TakePage();
  for (int64_t layer = 0; layer < layers_; ++layer) {
    std::byte* const pages = memory_.data() + layer * pages_ * page_bytes_;
    std::memcpy(pages + own * page_bytes_, pages + last * page_bytes_,
                static_cast<size_t>(page_bytes_));
  }
  DropPage(last);
  last = own;
}

bool KvCache::Extend(int64_t sequence, int64_t tokens) {
  Sequence& s = At(sequence);
  THINWIRE_CHECK(tokens >= 0, tokens);
  if (tokens == 0) return true;
  const int64_t used = s.used();
  const bool shares = SharesLastPage(s);
  const int64_t more = PagesFor(CheckedAdd(s.length, tokens, "context")) - used;
  if (more + (shares ? 1 : 0) > free_pages()) return false;
  if (shares) OwnLastPage(s);
  for (int64_t i = 0; i < more; ++i) s.pages[static_cast<size_t>(used + i)] = TakePage();
  s.length += tokens;
  return true;
}

void KvCache::Truncate(int64_t sequence, int64_t positions) {
  Sequence& s = At(sequence);
  THINWIRE_CHECK(positions >= 0 && positions <= s.length, positions, " of ", s.length);
  const int64_t used = s.used();
  s.length = positions;
  for (int64_t i = used; i > s.used(); --i) DropPage(s.pages[static_cast<size_t>(i - 1)]);
}

void KvCache::Share(int64_t from, int64_t to, int64_t positions) {
  const Sequence& source = At(from);
  Sequence& target = At(to);
  THINWIRE_CHECK(from != to && target.length == 0, "sequence ", to, " is not empty");
  THINWIRE_CHECK(positions >= 0 && positions <= source.length, positions, " of ", source.length);
  target.length = positions;
  for (int64_t i = 0; i < target.used(); ++i) {
    const int32_t page = source.pages[static_cast<size_t>(i)];
    target.pages[static_cast<size_t>(i)] = page;
    ++users_[static_cast<size_t>(page)];
  }
}

kernels::CachedSequence KvCache::Layer(int64_t layer, int64_t sequence) const {
  const Sequence& s = At(sequence);
  return {.layer = memory_.data() + layer * pages_ * page_bytes_,
          .pages = s.pages.first(static_cast<size_t>(s.used()))};
}

}  // namespace thinwire::infer
