// Bodies of attention.h, compiled once per instruction set.
#include "thinwire/kernels/attention_isa.h"

#include "thinwire/kernels/native_vectors-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

// Positions whose keys stand beside each other.
constexpr int64_t kGroup = 16;
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

template <int64_t kRows>
THINWIRE_INLINE void Scores(const FP16* keys, const Tile<kRows>& tile,
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

template <int64_t kRows, int64_t kVectors>
THINWIRE_INLINE void AddValues(const FP16* values, int64_t positions, int64_t d,
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

// Rows from `row` on; row r is head r % group of token r / group.
template <int64_t kRows>
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
    const FP16* const keys = head.first_page + head.pages[page] * head.page_elements;
    const FP16* const values = keys + kPagePositions * dim;
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

// The last rows, fewer than kRows.
template <int64_t kRows>
void AttendRest(const HeadPages& head, const AttentionQueries& queries, int64_t row, int64_t rest,
                float* scratch) {
  if constexpr (kRows > 1) {
    if (rest == kRows - 1) {
      AttendRows<kRows - 1>(head, queries, row, scratch);
    } else {
      AttendRest<kRows - 1>(head, queries, row, rest, scratch);
    }
  }
}

}  // namespace

void StoreHead(const HeadPages& head, int64_t first, int64_t tokens, const float* keys,
               const float* values, int64_t stride) {
  const int64_t dim = PaddedDim(head.dim);
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t position = first + t, slot = position % kPagePositions;
    FP16* const page = head.first_page + head.pages[position / kPagePositions] * head.page_elements;
    FP16* const key = page + slot / kGroup * dim * kGroup + slot % kGroup;
    FP16* const value = page + kPagePositions * dim + slot * dim;
    for (int64_t d = 0; d < dim; ++d) {
      key[d * kGroup] = ToFP16(d < head.dim ? keys[t * stride + d] : 0.0f);
      value[d] = ToFP16(d < head.dim ? values[t * stride + d] : 0.0f);
    }
  }
}

void AttendHead(const HeadPages& head, const AttentionQueries& queries, float* scratch) {
  const int64_t rows = queries.tokens * queries.group;
  int64_t row = 0;
  for (; row + kRowsAtOnce <= rows; row += kRowsAtOnce) {
    AttendRows<kRowsAtOnce>(head, queries, row, scratch);
  }
  AttendRest<kRowsAtOnce>(head, queries, row, rows - row, scratch);
}

}  // namespace thinwire::kernels::THINWIRE_ISA
