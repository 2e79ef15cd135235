#include "thinwire/zero/rotation.h"

#include <algorithm>
#include <array>

#include "thinwire/base/random.h"
#include "thinwire/kernels/convert.h"

namespace thinwire::zero {
namespace {

constexpr int64_t kTile = comm::Partition::kChunkGrain;

// Calls body(rows, begin, size) for stretches that are rotated by themselves; `begin` counts from
// the start of the range.
template <typename Body>
void ForEachTile(const UnitLayout& unit, const comm::Piece& piece, const Body& body) {
  size_t p = 0;
  int64_t at = piece.matrix.begin;
  for (const int64_t run : piece.matrix_runs) {
    const auto contains = [&] {
      const ParameterPlace& place = unit.places[p];
      return place.matrix && place.offset <= at && at < place.offset + place.numel;
    };
    while (!contains()) ++p;
    const int64_t length = RowLength(unit.spec.parameters[p]);
    for (int64_t begin = 0; begin < run; begin += kTile) {
      const int64_t in_row = (at + begin - unit.places[p].offset) % length;
      body(kernels::Rows{length, length - in_row}, at + begin - piece.matrix.begin,
           std::min(kTile, run - begin));
    }
    at += run;
  }
}

}  // namespace

kernels::Rotation RotationOf(const Recipe& recipe, int unit, int64_t step) {
  const uint64_t seed = recipe.feedback == nullptr ? static_cast<uint64_t>(step) : 0;
  return {recipe.rotation, Mix64(seed ^ (static_cast<uint64_t>(unit) << 40))};
}

int64_t RowLength(const ParameterSpec& parameter) {
  constexpr int64_t kShortest = 32;
  const std::vector<int64_t>& shape = parameter.shape;
  int64_t length = shape.empty() ? 1 : shape.back();
  if (shape.size() > 2 && length < kShortest) {
    for (size_t d = 1; d + 1 < shape.size(); ++d) length *= shape[d];
  }
  return std::max<int64_t>(1, length);
}

void RotateRows(const ExecContext& context, const kernels::Rotation& rotation,
                const UnitLayout& unit, const comm::Piece& piece, Array values) {
  ForEachTile(unit, piece, [&](const kernels::Rows& rows, int64_t begin, int64_t size) {
    const Array tile = values.Sub(begin, size);
    if (tile.dtype == DType::kF32) {
      return kernels::Rotate(context, rotation, rows, tile, tile.As<float>());
    }
    std::array<float, kTile> rotated;
    const std::span<float> out = std::span(rotated).first(static_cast<size_t>(size));
    kernels::Rotate(context, rotation, rows, tile, out);
    kernels::Convert(context, std::span<const float>(out), tile);
  });
}

void RotatePieces(const ExecContext& context, const kernels::Rotation& rotation,
                  const UnitLayout& unit, const comm::ExchangeShape& shape,
                  const comm::Image& image) {
  for (int member = 0; member < shape.members(); ++member) {
    const comm::Piece& piece = shape.piece(member);
    RotateRows(context, rotation, unit, piece, image.Matrix(piece.matrix));
  }
}

void RotateRowsBack(const ExecContext& context, const kernels::Rotation& rotation,
                    const UnitLayout& unit, const comm::Piece& piece, std::span<float> values) {
  ForEachTile(unit, piece, [&](const kernels::Rows& rows, int64_t begin, int64_t size) {
    const auto tile = values.subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
    kernels::RotateBack(context, rotation, rows, tile, tile);
  });
}

}  // namespace thinwire::zero
