#include "thinwire/blocks/activations.h"

#include <cstring>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/base/error.h"
#include "thinwire/blocks/activations_isa.h"

namespace thinwire::blocks {
namespace {

int64_t BytesPerToken(ActivationForm form, int64_t columns) {
  return form == ActivationForm::kFloat ? columns * 4
                                        : columns / kBlockColumns * kBlockBytesPerToken;
}

}  // namespace

ActivationForm FormFor(WeightType type) {
  switch (type) {
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBF16:
      return ActivationForm::kFloat;
    default:
      return ActivationForm::kInt8;
  }
}

int64_t Activations::Bytes(ActivationForm form, int64_t tokens, int64_t columns) {
  // Fewer tokens never take more: only the last tile has room to spare.
  const int64_t full = tokens / kTileTokens * kTileTokens;
  const int64_t rest = tokens - full;
  return (full + (rest > 0 ? blocks::TileWidth(rest) : 0)) * BytesPerToken(form, columns);
}

Activations::Activations(ActivationForm form, int64_t tokens, int64_t columns,
                         std::span<std::byte> memory)
    : form_(form), tokens_(tokens), columns_(columns), data_(memory.data()) {
  THINWIRE_CHECK(tokens >= 0 && columns >= 0 && columns % kBlockColumns == 0, tokens, "x", columns);
  THINWIRE_CHECK(std::ssize(memory) >= Bytes(form, tokens, columns), memory.size());
  THINWIRE_CHECK(reinterpret_cast<uintptr_t>(memory.data()) % kAlignment == 0);
}

std::byte* Activations::MutableTile(int64_t tile) const {
  return data_ + tile * kTileTokens * BytesPerToken(form_, columns_);
}

const std::byte* Activations::Tile(int64_t tile) const { return MutableTile(tile); }

void Activations::SetTiles(const ExecContext& context, const float* rows, int64_t stride,
                           int64_t begin, int64_t end) const {
  THINWIRE_CHECK(begin >= 0 && begin <= end && end <= tiles(), begin, "-", end, " of ", tiles());
  const auto set = form_ == ActivationForm::kFloat ? THINWIRE_PICK(context.isa, SetFloatToken)
                                                   : THINWIRE_PICK(context.isa, SetInt8Token);
  for (int64_t tile = begin; tile < end; ++tile) {
    const int64_t width = TileWidth(tile);
    const int64_t first = tile * kTileTokens;
    std::byte* const out = MutableTile(tile);
    if (tokens_ - first < width) {
      std::memset(out, 0, static_cast<size_t>(width * BytesPerToken(form_, columns_)));
    }
    for (int64_t slot = 0; slot < width && first + slot < tokens_; ++slot) {
      set(rows + (first + slot) * stride, columns_, out, width, slot);
    }
  }
}

}  // namespace thinwire::blocks
