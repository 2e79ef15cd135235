// A matrix of weights of any type, 16 rows side by side (packed_layout.h says how), for product.h.
// It has the bytes of the file's matrix, its last 16 rows filled up with zeros, and not one more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "thinwire/base/context.h"
#include "thinwire/base/weight_type.h"
#include "thinwire/blocks/packed_layout.h"

namespace thinwire::blocks {

// A view of memory that the caller plans; copies view the same.
class PackedMatrix {
 public:
  // Of a matrix of rows x columns (>= 0). Throws UsageError naming `what` when the columns are no
  // whole number of blocks, or of 32 where blocks are smaller; or when the size does not fit.
  static int64_t Bytes(WeightType type, int64_t rows, int64_t columns, std::string_view what);

  PackedMatrix() = default;
  // `memory` has Bytes() and is aligned to 64.
  PackedMatrix(WeightType type, int64_t rows, int64_t columns, std::span<std::byte> memory);

  WeightType type() const { return type_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  // Of 16 rows each.
  int64_t groups() const { return (rows_ + kGroupRows - 1) / kGroupRows; }
  int64_t row_bytes() const { return row_bytes_; }
  std::span<const std::byte> Group(int64_t group) const { return GroupBytes(group); }

  // Stores the rows from `first_row` (a multiple of 16) on. `source` has them as the file does, end
  // to end: a multiple of 16, or all that are left. Calls for different rows may run at once.
  void Pack(int64_t first_row, std::span<const std::byte> source) const;
  // One row as it was in the file; `out` has row_bytes().
  void UnpackRow(int64_t row, std::span<std::byte> out) const;
  // One row as numbers (decode.h); `out` has columns().
  void DecodeRow(const ExecContext& context, int64_t row, std::span<float> out) const;

 private:
  std::span<std::byte> GroupBytes(int64_t group) const {
    const int64_t bytes = kGroupRows * row_bytes_;
    return memory_.subspan(static_cast<size_t>(group * bytes), static_cast<size_t>(bytes));
  }

  WeightType type_ = WeightType::kF32;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int64_t row_bytes_ = 0;
  std::span<std::byte> memory_;
};

}  // namespace thinwire::blocks
