// How 16 rows of a matrix lie in a PackedMatrix. A cell is one block of the file's format in each
// of 16 rows. Its fields stand one after the other, and within a field a unit of row 0, the same
// unit of row 1, ... row 15, then the next unit of row 0: one register holds the same codes of 16
// rows. Cells follow one another along the row, then the next 16 rows.
//
// Two fields are not the file's bits. Q8_0's codes have their sign bit flipped, which makes them
// q + 128. The word of fifth bits of Q5_0 and Q5_1 is transposed: bit 8 i + v belongs to column
// 4 v + i, so that it comes to byte i of the register with codes of columns 4 v to 4 v + 3.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/weight_type.h"

namespace thinwire::blocks {

constexpr int64_t kGroupRows = 16;

struct PackedField {
  int16_t at;  // the first unit's place in a block of the file, bytes
  int8_t unit_bytes;
  int8_t units;
};

// In the order of a cell.
std::span<const PackedField> PackedFields(WeightType type);

constexpr bool FirstFieldMoves(WeightType type) {
  return type == WeightType::kQ3_K || type == WeightType::kQ6_K;
}

constexpr bool HasFifthBits(WeightType type) {
  return type == WeightType::kQ5_0 || type == WeightType::kQ5_1;
}

}  // namespace thinwire::blocks
