// Rotation of gradients between the two hops of a reduce: before the fast hop each rank rotates
// what it has (kernels/rotate.h), sums are those of rotated gradients, and the owner rotates the
// last of them back. Fixed for each element of a matrix region whatever the chunks are: segments
// begin where rows do, where the blocks of codecs restart, and every Partition::kChunkGrain
// elements from there, so that a row without gradients stays without.
#pragma once

#include "thinwire/base/context.h"
#include "thinwire/comm/exchange_shape.h"
#include "thinwire/kernels/rotate.h"
#include "thinwire/zero/layout.h"
#include "thinwire/zero/recipe.h"

namespace thinwire::zero {

// That of a unit's gradients, the same on all ranks and in all micro-batches of a step. In all
// steps where the slow reduce owes something from one to the next, which is rotated, too.
kernels::Rotation RotationOf(const Recipe& recipe, int unit, int64_t step);

// Elements of one row: of a matrix its last dimension. Of more dimensions that, too, unless it is
// shorter than a rotation (3 x 3 filters); then all behind the first.
int64_t RowLength(const ParameterSpec& parameter);

// The matrix range of a piece that travels, in place; `values` are those of the range. Numbers
// other than fp32 are rounded once.
void RotateRows(const ExecContext& context, const kernels::Rotation& rotation,
                const UnitLayout& unit, const comm::Piece& piece, Array values);
// The same for what all members of an exchange get of `image`.
void RotatePieces(const ExecContext& context, const kernels::Rotation& rotation,
                  const UnitLayout& unit, const comm::ExchangeShape& shape,
                  const comm::Image& image);
void RotateRowsBack(const ExecContext& context, const kernels::Rotation& rotation,
                    const UnitLayout& unit, const comm::Piece& piece, std::span<float> values);

}  // namespace thinwire::zero
