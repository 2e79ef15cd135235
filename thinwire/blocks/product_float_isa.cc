#include "thinwire/blocks/activations_layout.h"
#include "thinwire/blocks/product_isa.h"
#include "thinwire/blocks/product_out-inl.h"
#include "thinwire/blocks/rows16-inl.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

struct F32Rows {
  static constexpr int kColumnBytes = 16 * 4;
  THINWIRE_INLINE static Floats Load(const std::byte* in) { return LoadFloats(in); }
};
struct F16Rows {
  static constexpr int kColumnBytes = 16 * 2;
  THINWIRE_INLINE static Floats Load(const std::byte* in) { return Halves(in); }
};
struct BF16Rows {
  static constexpr int kColumnBytes = 16 * 2;
  THINWIRE_INLINE static Floats Load(const std::byte* in) { return Brains(in); }
};

// kTokens of the kWidth tokens of a tile.
template <typename Rows, int kWidth, int kTokens>
THINWIRE_INLINE void MultiplyTokens(const GroupRun& groups, const std::byte* tile, TileOut out) {
  // Sums of every so many columns, so that one addition need not wait for the one before.
  constexpr int kSums = kTokens <= 2 ? 4 : kTokens <= 4 ? 2 : 1;
  const std::byte* column = groups.first;
  for (int64_t group = 0; group < groups.count; ++group) {
    const std::byte* x = tile;
    Floats sums[size_t{kTokens * kSums}] = {};
    for (int64_t k = 0; k < groups.columns; k += kSums) {
#pragma GCC unroll 4
      for (int s = 0; s < kSums; ++s) {
        const Floats weights = Rows::Load(column + s * Rows::kColumnBytes);
#pragma GCC unroll 12
        for (int t = 0; t < kTokens; ++t) {
          Floats& sum = sums[s * kTokens + t];
          sum = Fma(weights, EveryRow(FloatAt(x + 4 * (s * kWidth + t))), sum);
        }
      }
      column += kSums * Rows::kColumnBytes;
      x += 4 * kSums * kWidth;
    }
#pragma GCC unroll 4
    for (int s = 1; s < kSums; ++s) {
#pragma GCC unroll 12
      for (int t = 0; t < kTokens; ++t) sums[t] = sums[t] + sums[s * kTokens + t];
    }
    StoreGroup(sums, out);
  }
}

template <typename Rows, int kWidth>
void MultiplyWidth(const GroupRun& groups, const std::byte* tile, const TileOut& out) {
  constexpr int kTokens = kPanelTokens < kWidth ? kPanelTokens : kWidth;
  for (int first = 0; first < kWidth && first < out.tokens; first += kTokens) {
    MultiplyTokens<Rows, kWidth, kTokens>(groups, tile + 4 * first, PartOf<kTokens>(out, first));
  }
}

template <typename Rows>
THINWIRE_INLINE void MultiplyRows(int64_t width, const GroupRun& groups, const std::byte* tile,
                                  const TileOut& out) {
  if (width == 1) return MultiplyWidth<Rows, 1>(groups, tile, out);
  if (width == 2) return MultiplyWidth<Rows, 2>(groups, tile, out);
  if (width == 4) return MultiplyWidth<Rows, 4>(groups, tile, out);
  if (width == 8) return MultiplyWidth<Rows, 8>(groups, tile, out);
  MultiplyWidth<Rows, kTileTokens>(groups, tile, out);
}

}  // namespace

void MultiplyFloats(WeightType type, int64_t width, const GroupRun& groups, const std::byte* tile,
                    TileOut out) {
  if (type == WeightType::kF32) return MultiplyRows<F32Rows>(width, groups, tile, out);
  if (type == WeightType::kF16) return MultiplyRows<F16Rows>(width, groups, tile, out);
  MultiplyRows<BF16Rows>(width, groups, tile, out);
}

}  // namespace thinwire::blocks::THINWIRE_ISA
