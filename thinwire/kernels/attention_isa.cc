// Bodies of attention.h, compiled once per instruction set.
#include "thinwire/kernels/attention_isa.h"

#include "thinwire/kernels/native_vectors-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

// Positions whose keys stand beside each other.
constexpr int64_t kGroup = 16;
constexpr int64_t kGroupVectors = kGroup / kWidth;
constexpr int64_t kPageVectors = kPagePositions / kWidth;

// What fits the registers: rows x vectors of sums, a vector and a factor.
#if defined(__AVX512F__)
constexpr int64_t kRowsAtOnce = 6;
#else
constexpr int64_t kRowsAtOnce = 3;
#endif
constexpr int64_t kVectorsAtOnce = 4;
static_assert(kRowsAtOnce <= kAttentionRows);

// Queries that go over the pages together, each row `dim` padded floats.
template <int64_t kRows>
struct Tile {
  const float* queries;
  float* sums;           // of values, each times its weight
  float* probabilities;  // [row][position of the page]
  int64_t dim;           // padded
  int64_t visible[Extent(kRows)];
  int64_t hidden[Extent(kRows)];  // positions before the window
  V total[Extent(kRows)];         // of weights, by lane
  float max[Extent(kRows)];
};

template <int64_t kRows, int64_t kVectors>
struct Vectors {
  V at[Extent(kRows)][Extent(kVectors)];
};

template <int64_t kRows, typename Number>
THINWIRE_INLINE void Scores(const Number* keys, const Tile<kRows>& tile,
                            Vectors<kRows, kPageVectors>& scores) {
  for (auto& row : scores.at) {
    for (V& vector : row) vector = V{};
  }
  for (int64_t d = 0; d < tile.dim; ++d) {
    V key[Extent(kPageVectors)];
    for (int64_t v = 0; v < kPageVectors; ++v) {
      const int64_t position = v * kWidth;
      key[v] = Load(keys + (position / kGroup * tile.dim + d) * kGroup + position % kGroup);
    }
    for (int64_t r = 0; r < kRows; ++r) {
      const V query = Splat(tile.queries[r * tile.dim + d]);
      for (int64_t v = 0; v < kPageVectors; ++v) {
        scores.at[r][v] = MulAdd(key[v], query, scores.at[r][v]);
      }
    }
  }
}

// Where position `first` + lane may be seen: the score; elsewhere what no score is below.
THINWIRE_INLINE V Masked(V scores, int64_t first, int64_t hidden, int64_t visible) {
  if (first >= hidden && first + kWidth <= visible) return scores;
  const auto inside = [first](int64_t position) __attribute__((always_inline)) {
    const int64_t lane = position - first;
    return static_cast<uint32_t>(lane < 0 ? 0 : lane > int64_t{kWidth} ? int64_t{kWidth} : lane);
  };
  const VBits from = VBits{} + inside(hidden), to = VBits{} + inside(visible);
  return (kLaneNumbers >= from) & (kLaneNumbers < to) ? scores : Splat(-3e38f);
}

// The weights of a page's positions, and the sums so far brought to the new maximum.
template <int64_t kRows>
THINWIRE_INLINE void Weigh(int64_t first, Vectors<kRows, kPageVectors>& scores, Tile<kRows>& tile) {
  for (int64_t r = 0; r < kRows; ++r) {
    V larger = Splat(tile.max[r]);
    for (int64_t v = 0; v < kPageVectors; ++v) {
      scores.at[r][v] =
          Masked(scores.at[r][v], first + v * kWidth, tile.hidden[r], tile.visible[r]);
      larger = Larger(larger, scores.at[r][v]);
    }
    const float max = LargestOfLanes(larger);
    if (max > tile.max[r]) {
      const V factor = Exp(Splat(tile.max[r] - max));
      tile.total[r] *= factor;
      for (int64_t d = 0; d < tile.dim; d += kWidth) {
        float* const sums = tile.sums + r * tile.dim + d;
        Store(sums, Load(sums) * factor);
      }
      tile.max[r] = max;
    }
    for (int64_t v = 0; v < kPageVectors; ++v) {
      const V weight = scores.at[r][v] > -2e38f ? Exp(scores.at[r][v] - tile.max[r]) : V{};
      tile.total[r] += weight;
      Store(tile.probabilities + r * kPagePositions + v * kWidth, weight);
    }
  }
}

template <int64_t kRows, int64_t kVectors, typename Number>
THINWIRE_INLINE void AddValues(const Number* values, int64_t positions, int64_t d,
                               const Tile<kRows>& tile) {
  Vectors<kRows, kVectors> sums;
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t v = 0; v < kVectors; ++v) {
      sums.at[r][v] = Load(tile.sums + r * tile.dim + d + v * kWidth);
    }
  }
  for (int64_t p = 0; p < positions; ++p) {
    V value[Extent(kVectors)];
    for (int64_t v = 0; v < kVectors; ++v) value[v] = Load(values + p * tile.dim + d + v * kWidth);
    for (int64_t r = 0; r < kRows; ++r) {
      const V weight = Splat(tile.probabilities[r * kPagePositions + p]);
      for (int64_t v = 0; v < kVectors; ++v)
        sums.at[r][v] = MulAdd(value[v], weight, sums.at[r][v]);
    }
  }
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t v = 0; v < kVectors; ++v) {
      Store(tile.sums + r * tile.dim + d + v * kWidth, sums.at[r][v]);
    }
  }
}

// Sixteen codes as floats: times their own scales, or all times one.
THINWIRE_INLINE void Widen(const std::byte* codes, const V* scales, bool one, float* out) {
  typedef int8_t Codes __attribute__((vector_size(kWidth)));
  for (int64_t v = 0; v < kGroupVectors; ++v) {
    Codes c;
    __builtin_memcpy(&c, codes + v * kWidth, sizeof(c));
    Store(out + v * kWidth, __builtin_convertvector(c, V) * scales[one ? 0 : v]);
  }
}

// The keys and values of a page in q8_0, as those of a page in f32 lie.
void WidenPage(const std::byte* page, int64_t dim, float* out) {
  const int64_t elements = kPagePositions * dim, bytes = elements + elements / kScaled * 2;
  for (int64_t block = 0; block < dim / kScaled; ++block) {
    for (int64_t group = 0; group < kPagePositions / kGroup; ++group) {
      const int64_t at = elements + 2 * (block * kPagePositions + group * kGroup);
      const auto* const key_scales = reinterpret_cast<const FP16*>(page + at);
      const auto* const value_scales = reinterpret_cast<const FP16*>(page + bytes + at);
      V scales[Extent(kGroupVectors)];
      float each[kGroup];
      for (int64_t v = 0; v < kGroupVectors; ++v) {
        scales[v] = Load(key_scales + v * kWidth);
        Store(each + v * kWidth, Load(value_scales + v * kWidth));
      }
      for (int64_t d = block * kScaled; d < (block + 1) * kScaled; ++d) {
        const int64_t key = (group * dim + d) * kGroup;
        Widen(page + key, scales, false, out + key);
      }
      for (int64_t i = 0; i < kGroup; ++i) {
        const V scale = Splat(each[i]);
        const int64_t value = (group * kGroup + i) * dim + block * kScaled;
        for (int64_t d = value; d < value + kScaled; d += kGroup) {
          Widen(page + bytes + d, &scale, true, out + elements + d);
        }
      }
    }
  }
}

// Rows from `row` on; row r is head r % group of token r / group.
template <int64_t kRows, typename Number>
void AttendRows(const HeadPages& head, const AttentionQueries& queries, int64_t row,
                float* scratch) {
  const int64_t dim = PaddedDim(head.dim);
  float* const scaled = scratch;
  Tile<kRows> tile = {.queries = scaled,
                      .sums = scratch + kRows * dim,
                      .probabilities = scratch + 2 * kRows * dim,
                      .dim = dim,
                      .visible = {},
                      .hidden = {},
                      .total = {},
                      .max = {}};
  __builtin_memset(scratch, 0, static_cast<size_t>(2 * kRows * dim) * sizeof(float));
  for (int64_t r = 0; r < kRows; ++r) {
    const int64_t token = (row + r) / queries.group, group = (row + r) % queries.group;
    const float* const query = queries.queries + token * queries.stride + group * head.dim;
    for (int64_t d = 0; d < head.dim; ++d) scaled[r * dim + d] = query[d] * queries.scale;
    tile.visible[r] = queries.visible > 0 ? queries.visible : queries.first + token + 1;
    const bool windowed = queries.window > 0 && tile.visible[r] > queries.window;
    tile.hidden[r] = windowed ? tile.visible[r] - queries.window : 0;
    tile.max[r] = -3e38f;
  }
  const int64_t end = tile.visible[kRows - 1];
  for (int64_t page = tile.hidden[0] / kPagePositions; page * kPagePositions < end; ++page) {
    const std::byte* const stored = head.first_page + head.pages[page] * head.page_bytes;
    const auto* keys = reinterpret_cast<const Number*>(stored);
    if constexpr (sizeof(Number) == sizeof(float)) {
      if (head.type == KvType::kQ8_0) {
        float* const widened = scratch + kRows * (2 * dim + kPagePositions);
        WidenPage(stored, dim, widened);
        keys = widened;
      }
    }
    const Number* const values = keys + kPagePositions * dim;
    const int64_t first = page * kPagePositions;
    const int64_t positions = end - first < kPagePositions ? end - first : kPagePositions;
    Vectors<kRows, kPageVectors> scores;
    Scores(keys, tile, scores);
    Weigh(first, scores, tile);
    int64_t d = 0;
    for (; d + kVectorsAtOnce * kWidth <= dim; d += kVectorsAtOnce * kWidth) {
      AddValues<kRows, kVectorsAtOnce>(values, positions, d, tile);
    }
    for (; d < dim; d += kWidth) AddValues<kRows, 1>(values, positions, d, tile);
  }
  for (int64_t r = 0; r < kRows; ++r) {
    const int64_t token = (row + r) / queries.group, group = (row + r) % queries.group;
    float* const out = queries.out + token * queries.stride + group * head.dim;
    const float inverse = 1.0f / SumOfLanes(tile.total[r]);
    for (int64_t d = 0; d < head.dim; ++d) out[d] = tile.sums[r * dim + d] * inverse;
  }
}

// Rows from `row` on, kRows at a time and the rest in smaller tiles: of every size for fp16, which
// most caches have, else of half as many, as each is code of its own.
template <typename Number, int64_t kRows = kRowsAtOnce>
void AttendAll(const HeadPages& head, const AttentionQueries& queries, int64_t row,
               float* scratch) {
  const int64_t rows = queries.tokens * queries.group;
  for (; row + kRows <= rows; row += kRows) AttendRows<kRows, Number>(head, queries, row, scratch);
  if constexpr (kRows > 1) {
    constexpr int64_t kFewer = sizeof(Number) == sizeof(FP16) ? kRows - 1 : kRows / 2;
    if (row < rows) AttendAll<Number, kFewer>(head, queries, row, scratch);
  }
}

// Where a position's elements go.
struct Places {
  std::byte *key, *value;              // the first element's
  std::byte *key_scale, *value_scale;  // of q8_0
};

Places PlacesOf(const HeadPages& head, int64_t position) {
  const int64_t dim = PaddedDim(head.dim), slot = position % kPagePositions;
  const int64_t size = head.type == KvType::kF32 ? 4 : head.type == KvType::kF16 ? 2 : 1;
  const int64_t scales = head.type == KvType::kQ8_0 ? dim / kScaled * 2 : 0;  // bytes per position
  std::byte* const page = head.first_page + head.pages[position / kPagePositions] * head.page_bytes;
  std::byte* const values = page + kPagePositions * (dim * size + scales);
  return {.key = page + (slot / kGroup * dim * kGroup + slot % kGroup) * size,
          .value = values + slot * dim * size,
          .key_scale = page + kPagePositions * dim + 2 * slot,
          .value_scale = values + kPagePositions * dim + 2 * slot};
}

// Elements stand `apart` elements apart.
template <typename Number>
THINWIRE_INLINE void StorePadded(const float* from, int64_t size, int64_t apart, std::byte* to) {
  for (int64_t d = 0; d < PaddedDim(size); ++d) {
    const float x = d < size ? from[d] : 0.0f;
    Number number;
    if constexpr (sizeof(Number) == sizeof(float)) {
      number = x;
    } else {
      number = ToFP16(x);
    }
    __builtin_memcpy(to + d * apart * int64_t{sizeof(number)}, &number, sizeof(number));
  }
}

void StoreCodes(const float* from, int64_t size, int64_t apart, std::byte* to, std::byte* scales) {
  for (int64_t d = 0; d < size; d += kScaled, from += kScaled, scales += 2 * kPagePositions) {
    uint32_t largest = 0;  // as bits of a magnitude: larger numbers, then inf, then NaN
    for (int64_t i = 0; i < kScaled; ++i) {
      const uint32_t bits = __builtin_bit_cast(uint32_t, from[i]) & 0x7fffffffu;
      largest = largest < bits ? bits : largest;
    }
    const FP16 scale = ToFP16(__builtin_bit_cast(float, largest) / 127.0f);
    __builtin_memcpy(scales, &scale, sizeof(scale));
    const float found = ToFloat(scale), inverse = found > 0 ? 1.0f / found : 0.0f;
    for (int64_t i = 0; i < kScaled; ++i, to += apart) {
      const float scaled = from[i] * inverse;
      // Not of NaN; and above 127 where the scale, a subnormal number, was rounded down.
      const float held = scaled > 127.0f ? 127.0f : scaled >= -127.0f ? scaled : -127.0f;
      const float shifted = held + 0x1.8p23f;  // whose unit is 1
      *to = static_cast<std::byte>(__builtin_bit_cast(uint32_t, shifted));
    }
  }
}

}  // namespace

void StoreHead(const HeadPages& head, int64_t first, int64_t tokens, const float* keys,
               const float* values, int64_t stride) {
  for (int64_t t = 0; t < tokens; ++t, keys += stride, values += stride) {
    const Places to = PlacesOf(head, first + t);
    switch (head.type) {
      case KvType::kF32:
        StorePadded<float>(keys, head.dim, kGroup, to.key);
        StorePadded<float>(values, head.dim, 1, to.value);
        break;
      case KvType::kF16:
        StorePadded<FP16>(keys, head.dim, kGroup, to.key);
        StorePadded<FP16>(values, head.dim, 1, to.value);
        break;
      case KvType::kQ8_0:
        StoreCodes(keys, head.dim, kGroup, to.key, to.key_scale);
        StoreCodes(values, head.dim, 1, to.value, to.value_scale);
        break;
    }
  }
}

void AttendHead(const HeadPages& head, const AttentionQueries& queries, float* scratch) {
  if (head.type == KvType::kF16) return AttendAll<FP16>(head, queries, 0, scratch);
  AttendAll<float>(head, queries, 0, scratch);
}

}  // namespace thinwire::kernels::THINWIRE_ISA
