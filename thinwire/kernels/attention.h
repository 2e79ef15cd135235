// Attention of a decoder over keys and values that are kept in pages.
//
// A page holds kPagePositions positions of one layer: for each key/value head first its keys, as
// [position / 16][dim][position % 16], so that 16 scores are sums of whole vectors, then its values
// as [position][dim]. Pages of a layer lie one behind the other, and those of a sequence in any
// order. Elements are
//
//   f32    as they are              dim padded with zeros to a multiple of 16
//   f16    beyond its range inf     the same
//   q8_0   int8 codes times an fp16 scale for each 32 elements of a position, m / 127 with m their
//          largest magnitude: off by at most m / 254 * (1 + 2^-9) + 2^-17, and not finite where m
//          is above 2^22. Scales stand behind the keys and behind the values of a head, as
//          [dim / 32][position]
//
// Softmax runs page by page (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018); sums are fp32, their order that of the vectors, so instruction sets differ in last bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "thinwire/base/context.h"
#include "thinwire/base/dtype.h"

namespace thinwire::kernels {

constexpr int64_t kPagePositions = 32;

enum class KvType { kF32, kF16, kQ8_0 };

// "f32", "f16", "q8_0"
std::string_view NameOf(KvType type);
// By that name, upper or lower case. Throws UsageError that lists the names.
KvType KvTypeNamed(std::string_view name);

struct HeadsShape {
  int64_t kv_heads = 1;
  int64_t dim = 0;  // with q8_0 a multiple of 32
  KvType type = KvType::kF16;
};

// Of one page, a multiple of 64. Throws UsageError where heads of this dim have no such pages.
int64_t PageBytes(const HeadsShape& heads);

// The keys and values of one sequence in one layer.
struct CachedSequence {
  std::byte* layer = nullptr;      // its pages, aligned to 64
  std::span<const int32_t> pages;  // those of positions 0 to 31, 32 to 63, ...
};

// Rows of keys and of values, [token][kv_heads * dim] at `stride` floats, become positions first,
// first + 1 ... of the sequence.
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
