// Only for x_isa.cc: products of 16 rows to where they go.
#pragma once

#include "thinwire/blocks/product_isa.h"
#include "thinwire/blocks/rows16-inl.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

// x[token][row], tokens and rows that nobody wants among them. One copy for all kernels: inlined
// into each it was most of their code.
[[gnu::noinline, maybe_unused]] void Store(const Floats* x, const TileOut& to) {
  for (int64_t token = 0; token < to.tokens; ++token) {
    float* out = to.out + token * to.stride;
    Floats sum = x[token];
    if (to.rows >= 16) {
      if (to.bias != nullptr) sum = sum + LoadFloats(reinterpret_cast<const std::byte*>(to.bias));
      if (to.add) sum = sum + LoadFloats(reinterpret_cast<const std::byte*>(out));
      StoreRows(reinterpret_cast<std::byte*>(out), sum);
      continue;
    }
    float rows[16];
    StoreRows(reinterpret_cast<std::byte*>(rows), sum);
    for (int64_t row = 0; row < to.rows; ++row) {
      const float biased = rows[row] + (to.bias != nullptr ? to.bias[row] : 0.0f);
      out[row] = to.add ? out[row] + biased : biased;
    }
  }
}

// `kTokens` of a tile from `first` on.
template <int kTokens>
THINWIRE_INLINE TileOut PartOf(const TileOut& tile, int first) {
  TileOut part = tile;
  part.out += first * tile.stride;
  part.tokens = tile.tokens - first < kTokens ? tile.tokens - first : kTokens;
  return part;
}

// Of a run of groups.
THINWIRE_INLINE void StoreGroup(const Floats* x, TileOut& to) {
  Store(x, to);
  to.rows -= 16;
  to.out += 16;
  if (to.bias != nullptr) to.bias += 16;
}

}  // namespace
}  // namespace thinwire::blocks::THINWIRE_ISA
