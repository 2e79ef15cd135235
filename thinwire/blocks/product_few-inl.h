// Only for x_isa.cc: groups of rows times a tile of few tokens. Codes are taken apart in registers
// and used at once, so the memory is read once, in order.
#pragma once

#include <type_traits>
#include <utility>

#include "thinwire/blocks/activations_layout.h"
#include "thinwire/blocks/packed_types-inl.h"
#include "thinwire/blocks/product_isa.h"
#include "thinwire/blocks/product_out-inl.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

constexpr int Log2(int x) { return x <= 1 ? 0 : 1 + Log2(x / 2); }

// What sums of kTokens tokens start at; `sums` are those of the activations' codes, times -128.
template <int kZero, int kTokens>
THINWIRE_INLINE void StartSums(const std::byte* sums, Ints* out) {
  for (int t = 0; t < kTokens; ++t) {
    if constexpr (kOffsetCodes && kZero > 0) {
      out[t] = EveryRow(IntAt(sums + 4 * t));
      for (int p = 0; p < kParts; ++p) out[t].v[p] >>= 7 - Log2(kZero);
    } else {
      out[t] = EveryRow(0);
    }
  }
}

// Columns 32 b + 16 h and up of a cell: its sums of products of codes, for each token.
template <typename Rows, int kBlock, int kHalf, int kTokens>
THINWIRE_INLINE void DotBlock(const std::byte* cell, const std::byte* block, Ints* sum) {
  constexpr int kSteps = 8 / Rows::kScales;
  [&]<int... kV>(std::integer_sequence<int, kV...>) __attribute__((always_inline)) {
    const auto step = [&]<int kStep>() __attribute__((always_inline)) {
      // Both codes of a byte of nibbles one after the other.
      constexpr int kAt = Rows::kScales == 1 ? kStep % 2 * 4 + kStep / 2 : 4 * kHalf + kStep;
      Words codes = Rows::template Codes<kBlock, kAt>(cell);
      if constexpr (!kOffsetCodes) codes = AddBytes<-Rows::kZero>(codes);
      for (int t = 0; t < kTokens; ++t) Dot(sum[t], codes, block + 4 * (kTokens * kAt + t));
    };
    (step.template operator()<kV>(), ...);
  }
  (std::make_integer_sequence<int, kSteps>());
}

template <typename Rows, int kBlock, int kHalf, int kTokens>
THINWIRE_INLINE void AddHalf(const std::byte* cell, const std::byte* block, Floats* products) {
  constexpr int64_t kPlace = Rows::kScales == 1 ? kSumPlace
                             : kHalf == 0       ? kFirstSumPlace
                                                : kLastSumPlace;
  Ints sum[size_t{kTokens}];
  StartSums<Rows::kZero, kTokens>(block + kPlace * kTokens, sum);
  DotBlock<Rows, kBlock, kHalf, kTokens>(cell, block, sum);
  const Floats scale = Rows::template Scale<kBlock, kHalf>(cell);
  for (int t = 0; t < kTokens; ++t) {
    products[t] = kHalf == 0 ? ToFloats(sum[t]) * scale : Fma(ToFloats(sum[t]), scale, products[t]);
  }
  if constexpr (Rows::kMinimum) {
    const Floats minimum = Rows::template Minimum<kBlock, kHalf>(cell);
    for (int t = 0; t < kTokens; ++t) {
      const Ints activations = EveryRow(IntAt(block + kPlace * kTokens + 4 * t));
      products[t] = Fma(minimum, ToFloats(activations), products[t]);
    }
  }
}

template <typename Rows, int kBlock, int kTokens>
THINWIRE_INLINE void AddBlock(const std::byte* cell, const std::byte* block, Floats* total) {
  // Keeps GCC from asking for the words of blocks to come ahead of those that it needs next: of one
  // token 9.4 GB/s became 14.7. Other types lose by it.
  if constexpr (std::is_same_v<Rows, Q6_KRows>) asm volatile("" ::: "memory");
  Floats products[size_t{kTokens}];
  AddHalf<Rows, kBlock, 0, kTokens>(cell, block, products);
  if constexpr (Rows::kScales == 2) AddHalf<Rows, kBlock, 1, kTokens>(cell, block, products);
  for (int t = 0; t < kTokens; ++t) {
    const Floats scale = EveryRow(FloatAt(block + kScalePlace * kTokens + 4 * t));
    total[t] = Fma(products[t], scale, total[t]);
  }
}

// Blocks that share bytes one after the other: of Q6_K 0 and 2, 1 and 3, 4 and 6, 5 and 7. So
// memory is asked for evenly.
template <typename Rows>
constexpr int NthBlock(int n) {
  return std::is_same_v<Rows, Q6_KRows> ? n / 4 * 4 + n % 2 * 2 + n % 4 / 2 : n;
}

template <typename Rows, int kTokens>
void MultiplyFewOf(const GroupRun& groups, const std::byte* tile, TileOut out) {
  const int64_t cells = groups.columns / (kBlockColumns * Rows::kCellBlocks);
  const std::byte* cell = groups.first;
  for (int64_t group = 0; group < groups.count; ++group) {
    const std::byte* block = tile;
    Floats total[size_t{kTokens}] = {};
    for (int64_t c = 0; c < cells; ++c) {
      [&]<int... kBlock>(std::integer_sequence<int, kBlock...>) __attribute__((always_inline)) {
        (AddBlock<Rows, NthBlock<Rows>(kBlock), kTokens>(
             cell, block + NthBlock<Rows>(kBlock) * kBlockBytesPerToken * kTokens, total),
         ...);
      }
      (std::make_integer_sequence<int, Rows::kCellBlocks>());
      cell += Rows::kCellBytes;
      block += Rows::kCellBlocks * kBlockBytesPerToken * kTokens;
    }
    StoreGroup(total, out);
  }
}

template <typename Rows>
THINWIRE_INLINE void MultiplyFewOf(int64_t width, const GroupRun& groups, const std::byte* tile,
                                   const TileOut& out) {
  if (width == 1) return MultiplyFewOf<Rows, 1>(groups, tile, out);
  if (width == 2) return MultiplyFewOf<Rows, 2>(groups, tile, out);
  MultiplyFewOf<Rows, 4>(groups, tile, out);
}

}  // namespace
}  // namespace thinwire::blocks::THINWIRE_ISA
