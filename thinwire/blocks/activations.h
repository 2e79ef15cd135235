// Rows of activations as products read them: int8 codes for weights in integers, or fp32.
//
//   int8   per 32 columns a scale s = m / 127, m the largest magnitude, and codes x * (127 / m)
//          rounded to nearest, ties to even, -127 to 127: the error is at most (1/2 + 2^-15) s.
//          All codes and s are 0 where m < 2^-100; NaN or inf makes s NaN, and so every product.
//          The same bits on every instruction set.
//   fp32   as they are
//
// Tokens lie interleaved in tiles of 12, the last of fewer: activations_layout.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "thinwire/base/context.h"
#include "thinwire/base/weight_type.h"
#include "thinwire/blocks/activations_layout.h"

namespace thinwire::blocks {

enum class ActivationForm { kInt8, kFloat };

// What products with weights of this type take.
ActivationForm FormFor(WeightType type);

// A view of memory that the caller plans; copies view the same.
class Activations {
 public:
  // For up to `tokens` rows of `columns`, a multiple of 32.
  static int64_t Bytes(ActivationForm form, int64_t tokens, int64_t columns);

  Activations() = default;
  // For exactly `tokens` rows (>= 0). `memory` has at least Bytes() and is aligned to 64.
  Activations(ActivationForm form, int64_t tokens, int64_t columns, std::span<std::byte> memory);

  ActivationForm form() const { return form_; }
  int64_t tokens() const { return tokens_; }
  int64_t columns() const { return columns_; }
  int64_t tiles() const { return (tokens_ + kTileTokens - 1) / kTileTokens; }
  // Tokens that tile `tile` has room for, those that only fill it up among them.
  int64_t TileWidth(int64_t tile) const { return blocks::TileWidth(tokens_ - tile * kTileTokens); }
  const std::byte* Tile(int64_t tile) const;

  // Stores tiles [begin, end): token t is `rows[t * stride]` up to columns() more. Different tiles
  // may be stored at once.
  void SetTiles(const ExecContext& context, const float* rows, int64_t stride, int64_t begin,
                int64_t end) const;
  void Set(const ExecContext& context, const float* rows, int64_t stride) const {
    SetTiles(context, rows, stride, 0, tiles());
  }

 private:
  std::byte* MutableTile(int64_t tile) const;

  ActivationForm form_ = ActivationForm::kInt8;
  int64_t tokens_ = 0;
  int64_t columns_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace thinwire::blocks
