// Attention of a decoder over keys and values that are kept in pages.
//
// A page holds kPagePositions positions of one layer: for each key/value head first its keys, as
// [position / 16][dim][position % 16], so that 16 scores are sums of whole vectors, then its values
// as [position][dim]; fp16, dim padded with zeros to a multiple of 16. Pages of a layer lie one
// behind the other, and those of a sequence in any order.
//
// Softmax runs page by page (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018); sums are fp32, their order that of the vectors, so instruction sets differ in last bits.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/context.h"
#include "thinwire/base/dtype.h"

namespace thinwire::kernels {

constexpr int64_t kPagePositions = 32;

struct HeadsShape {
  int64_t kv_heads = 1;
  int64_t dim = 0;
};

// Of FP16, in one page.
int64_t PageElements(const HeadsShape& heads);

// The keys and values of one sequence in one layer.
struct CachedSequence {
  FP16* layer = nullptr;           // its pages
  std::span<const int32_t> pages;  // those of positions 0 to 31, 32 to 63, ...
};

// Rows of keys and of values, [token][kv_heads * dim] at `stride` floats, become positions first,
// first + 1 ... of the sequence. Values beyond fp16's range become inf.
void StoreKeysValues(const ExecContext& context, const HeadsShape& heads,
                     const CachedSequence& sequence, int64_t first, int64_t tokens,
                     const float* keys, const float* values, int64_t stride);

// The queries of one key/value head: `group` heads of `dim` floats for each of `tokens` tokens, at
// positions first, first + 1 ... Each sees the positions up to its own, at most the last `window`
// where that is not 0; or, where `visible` is not 0, positions 0 to visible - 1 whatever its own.
struct AttentionQueries {
  const float* queries = nullptr;
  float* out = nullptr;  // as the queries; may be the same
  int64_t stride = 0;    // floats from token to token
  int64_t tokens = 0;
  int64_t first = 0;
  int64_t group = 1;
  int64_t window = 0;
  int64_t visible = 0;
  float scale = 1;
};

// Floats of scratch for Attend: a multiple of 16, a cache line.
int64_t AttentionScratch(const HeadsShape& heads);

// out = softmax(scale * queries . keys) . values. The positions of the queries were stored before.
void Attend(const ExecContext& context, const HeadsShape& heads, const CachedSequence& sequence,
            int64_t kv_head, const AttentionQueries& queries, std::span<float> scratch);

}  // namespace thinwire::kernels
