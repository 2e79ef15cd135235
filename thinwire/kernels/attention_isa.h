// The bodies of attention.h; checks are the caller's.
#pragma once

#include "thinwire/kernels/attention.h"
#include "thinwire/kernels/per_isa.h"

namespace thinwire::kernels {

// Query rows that go over a page together, at most.
constexpr int64_t kAttentionRows = 6;

constexpr int64_t PaddedDim(int64_t dim) { return (dim + 15) / 16 * 16; }

// Elements of q8_0 that share a scale.
constexpr int64_t kScaled = 32;

// The keys and values of one head, wherever its pages lie. No span: its functions could be linked
// from another instruction set's file.
struct HeadPages {
  std::byte* first_page = nullptr;
  int64_t page_bytes = 0;
  const int32_t* pages = nullptr;
  int64_t dim = 0;
  KvType type = KvType::kF16;
};

THINWIRE_PER_ISA(void StoreHead(const HeadPages& head, int64_t first, int64_t tokens,
                                const float* keys, const float* values, int64_t stride);
                 void AttendHead(const HeadPages& head, const AttentionQueries& queries,
                                 float* scratch);)

}  // namespace thinwire::kernels
