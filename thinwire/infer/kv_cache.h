// Keys and values of several sequences in pages of kPagePositions positions, which sequences with
// the same beginning share. All memory is planned beforehand; nothing here allocates afterwards.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "thinwire/base/memory_plan.h"
#include "thinwire/infer/decoder_spec.h"
#include "thinwire/kernels/attention.h"

namespace thinwire::infer {

struct KvCapacity {
  int64_t sequences = 1;
  int64_t positions = 0;  // of all sequences together; rounded up to whole pages
  kernels::KvType type = kernels::KvType::kF16;
};

// The next `tokens` tokens of a sequence.
struct Segment {
  int64_t sequence = 0;
  int64_t tokens = 0;
};

class KvCache {
 public:
  // Adds its memory to `plan`, so Take comes before any other call. The object must not move.
  // Throws UsageError where there is no room to plan, or heads are none for the capacity's type.
  KvCache(const DecoderSpec& spec, const KvCapacity& capacity, MemoryPlan& plan);
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  int64_t sequences() const { return static_cast<int64_t>(sequences_.size()); }
  // Positions that are kept of the sequence: 0 .. Length - 1.
  int64_t Length(int64_t sequence) const { return At(sequence).length; }
  // Pages that are in no sequence.
  int64_t free_pages() const { return static_cast<int64_t>(free_.size()); }

  // Room for `tokens` more positions, which the sequence has from now on; they must be stored next.
  // False, and nothing is changed, where there are not enough pages.
  bool Extend(int64_t sequence, int64_t tokens);
  // Keeps the first `positions` (<= Length).
  void Truncate(int64_t sequence, int64_t positions);
  // `to` (empty) begins with the first `positions` (<= Length) of `from`, in the same pages; which
  // of them first goes on in a page that both have takes a page of its own then.
  void Share(int64_t from, int64_t to, int64_t positions);

  // What the cache's pages hold.
  const kernels::HeadsShape& heads() const { return heads_; }
  kernels::CachedSequence Layer(int64_t layer, int64_t sequence) const;

  static int64_t PagesFor(int64_t positions);

 private:
  struct Sequence {
    std::span<int32_t> pages;  // as many as there are at all
    int64_t length = 0;
    int64_t used() const { return PagesFor(length); }
  };

  const Sequence& At(int64_t sequence) const;
  Sequence& At(int64_t sequence) {
    return const_cast<Sequence&>(std::as_const(*this).At(sequence));
  }
  // One that is free; there must be one.
  int32_t TakePage();
  void DropPage(int32_t page);
  bool SharesLastPage(const Sequence& sequence) const;
  // A page of its own, which there must be, for the last, partly filled page of `sequence`.
  void OwnLastPage(Sequence& sequence);

  const int64_t layers_;
  const kernels::HeadsShape heads_;
  const int64_t page_bytes_;
  const int64_t pages_;
  std::span<std::byte> memory_;  // [layer][page][page_bytes_]
  std::vector<int32_t> users_;   // of each page
  std::vector<int32_t> free_;    // last in, first out, so that few pages are ever touched
  std::vector<Sequence> sequences_;
};

}  // namespace thinwire::infer
