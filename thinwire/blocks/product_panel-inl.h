// Only for x_isa.cc: a panel, and its product with a tile of many tokens.
//
// Per block and token the integer units do 8 products of registers and the floating-point units,
// which are the same ones on Zen 4, 2 to 5; everything else (loads that broadcast, conversions)
// goes elsewhere. 12 tokens take 24 registers for sums and leave each code in use 12 times.
#pragma once

#include <utility>

#include "thinwire/blocks/activations_layout.h"
#include "thinwire/blocks/packed_types-inl.h"
#include "thinwire/blocks/product_isa.h"
#include "thinwire/blocks/product_out-inl.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

template <typename Rows>
constexpr PanelForm kPanelFormOf = {Rows::kScales, Rows::kMinimum};

// Where codes have an offset it is 128 in every panel.
template <typename Rows>
constexpr int kToPanel = Rows::kZero == 0 ? 0 : (kOffsetCodes ? 128 : 0) - Rows::kZero;

template <typename Rows, int kBlock>
THINWIRE_INLINE void ExpandBlock(const std::byte* cell, std::byte* out) {
  [&]<int... kV>(std::integer_sequence<int, kV...>) __attribute__((always_inline)) {
    (StoreRows(out + 64 * kV, AddBytes<kToPanel<Rows>>(Rows::template Codes<kBlock, kV>(cell))),
     ...);
  }
  (std::make_integer_sequence<int, 8>());
  out += 512;
  StoreRows(out, Rows::template Scale<kBlock, 0>(cell));
  if constexpr (Rows::kScales == 2) StoreRows(out + 64, Rows::template Scale<kBlock, 1>(cell));
  if constexpr (Rows::kMinimum) {
    out += 64 * Rows::kScales;
    StoreRows(out, Rows::template Minimum<kBlock, 0>(cell));
    if constexpr (Rows::kScales == 2) StoreRows(out + 64, Rows::template Minimum<kBlock, 1>(cell));
  }
}

template <typename Rows>
void ExpandPanelOf(const std::byte* cell, int64_t columns, std::byte* out) {
  constexpr int64_t kBytes = PanelBlockBytes(kPanelFormOf<Rows>);
  for (int64_t k = 0; k < columns; k += kBlockColumns * Rows::kCellBlocks) {
    [&]<int... kBlock>(std::integer_sequence<int, kBlock...>) __attribute__((always_inline)) {
      (ExpandBlock<Rows, kBlock>(cell, out + kBlock * kBytes), ...);
    }
    (std::make_integer_sequence<int, Rows::kCellBlocks>());
    cell += Rows::kCellBytes;
    out += Rows::kCellBlocks * kBytes;
  }
}

// kTokens of the kWidth tokens of a tile.
template <PanelForm kForm, int kWidth, int kTokens>
THINWIRE_INLINE void AddPanelBlock(const std::byte* panel, const std::byte* block, Floats* total) {
  constexpr int kSteps = 8 / kForm.scales;
  Floats products[size_t{kTokens}];
#pragma GCC unroll 2
  for (int half = 0; half < kForm.scales; ++half) {
    const int64_t place = kForm.scales == 1 ? kSumPlace
                          : half == 0       ? kFirstSumPlace
                                            : kLastSumPlace;
    const std::byte* const sums = block + place * kWidth;
    Ints sum[size_t{kTokens}];
#pragma GCC unroll 12
    for (int t = 0; t < kTokens; ++t) {
      sum[t] = EveryRow(kOffsetCodes && !kForm.minimum ? IntAt(sums + 4 * t) : 0);
    }
#pragma GCC unroll 8
    for (int v = half * kSteps; v < (half + 1) * kSteps; ++v) {
      const Words codes = LoadWords(panel + 64 * v);
#pragma GCC unroll 12
      for (int t = 0; t < kTokens; ++t) Dot(sum[t], codes, block + 4 * (kWidth * v + t));
    }
    const Floats scale = LoadFloats(panel + 512 + 64 * half);
#pragma GCC unroll 12
    for (int t = 0; t < kTokens; ++t) {
      products[t] =
          half == 0 ? ToFloats(sum[t]) * scale : Fma(ToFloats(sum[t]), scale, products[t]);
      if (!kForm.minimum) continue;
      const Floats minimum = LoadFloats(panel + 512 + 64 * (kForm.scales + half));
      products[t] = Fma(minimum, ToFloats(EveryRow(IntAt(sums + 4 * t))), products[t]);
    }
  }
#pragma GCC unroll 12
  for (int t = 0; t < kTokens; ++t) {
    const Floats scale = EveryRow(FloatAt(block + kScalePlace * kWidth + 4 * t));
    total[t] = Fma(products[t], scale, total[t]);
  }
}

template <PanelForm kForm, int kWidth>
void MultiplyPanelOf(const std::byte* panel, int64_t columns, const std::byte* tile,
                     const TileOut& out) {
  constexpr int kTokens = kPanelTokens < kWidth ? kPanelTokens : kWidth;
  for (int first = 0; first < kWidth && first < out.tokens; first += kTokens) {
    const std::byte* from = panel;
    const std::byte* block = tile + 4 * first;
    Floats total[size_t{kTokens}] = {};
    for (int64_t k = 0; k < columns; k += kBlockColumns) {
      AddPanelBlock<kForm, kWidth, kTokens>(from, block, total);
      from += PanelBlockBytes(kForm);
      block += kBlockBytesPerToken * kWidth;
    }
    Store(total, PartOf<kTokens>(out, first));
  }
}

}  // namespace
}  // namespace thinwire::blocks::THINWIRE_ISA
