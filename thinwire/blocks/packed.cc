#include "thinwire/blocks/packed.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/base/checked.h"
#include "thinwire/base/error.h"
#include "thinwire/blocks/decode.h"

namespace thinwire::blocks {
namespace {

constexpr int64_t kLargestBlockBytes = 256;  // Q6_K has 210

// Bit 4 v + i of the argument goes to 8 i + v.
constexpr std::array<uint32_t, 256> kFifthBitsOfByte = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (uint32_t bit = 0; bit < 8; ++bit) {
      table[byte] |= (byte >> bit & 1u) << (8 * (bit % 4) + bit / 4);
    }
  }
  return table;
}();

uint32_t TransposedFifthBits(uint32_t bits) {
  return kFifthBitsOfByte[bits & 255] | kFifthBitsOfByte[bits >> 8 & 255] << 2 |
         kFifthBitsOfByte[bits >> 16 & 255] << 4 | kFifthBitsOfByte[bits >> 24] << 6;
}

uint32_t FileFifthBits(uint32_t transposed) {
  uint32_t bits = 0;
  for (uint32_t bit = 0; bit < 32; ++bit) {
    bits |= (transposed >> (8 * (bit % 4) + bit / 4) & 1u) << bit;
  }
  return bits;
}

// Field n of the cell that begins at `cell`.
const PackedField& NthField(WeightType type, const std::byte* cell, size_t n) {
  const std::span<const PackedField> fields = PackedFields(type);
  const bool first_is_last =
      FirstFieldMoves(type) && reinterpret_cast<uintptr_t>(cell) % kAlignment == 0;
  return fields[(n + (first_is_last ? 1 : 0)) % fields.size()];
}

enum class Change { kNone, kFlipSigns, kTransposeFifthBits };

Change ChangeOf(WeightType type, const PackedField& field) {
  if (field.unit_bytes != 4) return Change::kNone;
  if (type == WeightType::kQ8_0) return Change::kFlipSigns;
  if (HasFifthBits(type) && field.units == 1) return Change::kTransposeFifthBits;
  return Change::kNone;
}

// One unit of 16 rows, whose blocks are `stride` bytes apart.
template <typename Unit, Change kChange>
void PackUnit(const std::byte* in, int64_t stride, std::byte* out) {
#pragma GCC unroll 16
  for (int64_t row = 0; row < kGroupRows; ++row) {
    Unit unit;
    std::memcpy(&unit, in + row * stride, sizeof(Unit));
    if constexpr (kChange == Change::kFlipSigns) unit ^= 0x80808080u;
    if constexpr (kChange == Change::kTransposeFifthBits) unit = TransposedFifthBits(unit);
    std::memcpy(out + row * static_cast<int64_t>(sizeof(Unit)), &unit, sizeof(Unit));
  }
}

template <typename Unit, Change kChange>
std::byte* PackField(const PackedField& field, const std::byte* block, int64_t stride,
                     std::byte* out) {
  for (int64_t unit = 0; unit < field.units; ++unit) {
    PackUnit<Unit, kChange>(block + field.at + unit * field.unit_bytes, stride, out);
    out += kGroupRows * field.unit_bytes;
  }
  return out;
}

// 16 rows, `stride` bytes apart.
void PackGroup(WeightType type, const std::byte* rows, int64_t stride, std::byte* out) {
  const size_t fields = PackedFields(type).size();
  const int64_t block_bytes = BlockBytes(type);
  for (int64_t at = 0; at < stride; at += block_bytes) {
    const std::byte* const cell = out;
    for (size_t n = 0; n < fields; ++n) {
      const PackedField& field = NthField(type, cell, n);
      switch (field.unit_bytes) {
        case 1:
          out = PackField<uint8_t, Change::kNone>(field, rows + at, stride, out);
          break;
        case 2:
          out = PackField<uint16_t, Change::kNone>(field, rows + at, stride, out);
          break;
        default:
          switch (ChangeOf(type, field)) {
            case Change::kNone:
              out = PackField<uint32_t, Change::kNone>(field, rows + at, stride, out);
              break;
            case Change::kFlipSigns:
              out = PackField<uint32_t, Change::kFlipSigns>(field, rows + at, stride, out);
              break;
            case Change::kTransposeFifthBits:
              out = PackField<uint32_t, Change::kTransposeFifthBits>(field, rows + at, stride, out);
              break;
          }
      }
    }
  }
}

// The last group: `rows` of it are in `in`, zeros for the others.
void PackPartOfGroup(WeightType type, std::span<const std::byte> in, int64_t stride,
                     std::byte* out) {
  const int64_t block_bytes = BlockBytes(type);
  const int64_t rows = static_cast<int64_t>(in.size()) / stride;
  std::array<std::byte, kGroupRows * kLargestBlockBytes> cell{};
  for (int64_t at = 0; at < stride; at += block_bytes) {
    for (int64_t row = 0; row < rows; ++row) {
      std::memcpy(cell.data() + row * block_bytes, in.data() + row * stride + at,
                  static_cast<size_t>(block_bytes));
    }
    PackGroup(type, cell.data(), block_bytes, out);
    out += kGroupRows * block_bytes;
  }
}

// The blocks of row `lane` of the cells from `cell` on.
void UnpackBlocks(WeightType type, const std::byte* cell, int64_t lane, std::span<std::byte> out) {
  const size_t fields = PackedFields(type).size();
  for (int64_t at = 0; at < std::ssize(out); at += BlockBytes(type)) {
    const std::byte* const begin = cell;
    for (size_t n = 0; n < fields; ++n) {
      const PackedField& field = NthField(type, begin, n);
      const Change change = ChangeOf(type, field);
      for (int64_t unit = 0; unit < field.units; ++unit) {
        std::byte* to = out.data() + at + field.at + unit * field.unit_bytes;
        std::memcpy(to, cell + lane * field.unit_bytes, static_cast<size_t>(field.unit_bytes));
        cell += kGroupRows * field.unit_bytes;
        if (change == Change::kNone) continue;
        uint32_t word;
        std::memcpy(&word, to, sizeof(word));
        word = change == Change::kFlipSigns ? word ^ 0x80808080u : FileFifthBits(word);
        std::memcpy(to, &word, sizeof(word));
      }
    }
  }
}

}  // namespace

int64_t PackedMatrix::Bytes(WeightType type, int64_t rows, int64_t columns, std::string_view what) {
  const int64_t multiple = std::max<int64_t>(BlockElements(type), 32);
  if (columns < 0 || columns % multiple != 0) {
    throw UsageError(StrCat(what, ": rows of ", columns, " elements; products with ", NameOf(type),
                            " need a multiple of ", multiple));
  }
  if (rows < 0) throw UsageError(StrCat(what, ": ", rows, " rows"));
  const int64_t padded = CheckedAdd(rows, kGroupRows - 1, what) / kGroupRows * kGroupRows;
  return CheckedMul(padded, WeightBytes(type, columns, what), what);
}

PackedMatrix::PackedMatrix(WeightType type, int64_t rows, int64_t columns,
                           std::span<std::byte> memory)
    : type_(type),
      rows_(rows),
      columns_(columns),
      row_bytes_(WeightBytes(type, columns, "packed matrix")),
      memory_(memory) {
  THINWIRE_CHECK(std::ssize(memory) == Bytes(type, rows, columns, "packed matrix"), memory.size());
  THINWIRE_CHECK(reinterpret_cast<uintptr_t>(memory.data()) % kAlignment == 0);
}

void PackedMatrix::Pack(int64_t first_row, std::span<const std::byte> source) const {
  if (source.empty()) return;
  THINWIRE_CHECK(std::ssize(source) % row_bytes_ == 0, source.size(), " bytes of rows of ",
                 row_bytes_);
  const int64_t count = std::ssize(source) / row_bytes_;
  THINWIRE_CHECK(first_row >= 0 && first_row % kGroupRows == 0 && count <= rows_ - first_row,
                 first_row, "+", count, " of ", rows_);
  THINWIRE_CHECK(count % kGroupRows == 0 || first_row + count == rows_, first_row, "+", count,
                 " of ", rows_);
  for (int64_t row = 0; row < count; row += kGroupRows) {
    std::byte* out = GroupBytes((first_row + row) / kGroupRows).data();
    const auto rest = source.subspan(static_cast<size_t>(row * row_bytes_));
    if (count - row < kGroupRows) {
      PackPartOfGroup(type_, rest, row_bytes_, out);
    } else {
      PackGroup(type_, rest.data(), row_bytes_, out);
    }
  }
}

void PackedMatrix::UnpackRow(int64_t row, std::span<std::byte> out) const {
  THINWIRE_CHECK(row >= 0 && row < rows_, row, " of ", rows_);
  THINWIRE_CHECK(std::ssize(out) == row_bytes_, out.size());
  UnpackBlocks(type_, Group(row / kGroupRows).data(), row % kGroupRows, out);
}

void PackedMatrix::DecodeRow(const ExecContext& context, int64_t row, std::span<float> out) const {
  THINWIRE_CHECK(row >= 0 && row < rows_, row, " of ", rows_);
  THINWIRE_CHECK(std::ssize(out) == columns_, out.size());
  std::array<std::byte, 8 * kLargestBlockBytes> part;
  const int64_t blocks_at_once = std::ssize(part) / BlockBytes(type_);
  const std::byte* cell = Group(row / kGroupRows).data();
  while (!out.empty()) {
    const int64_t elements =
        std::min(blocks_at_once * BlockElements(type_), static_cast<int64_t>(out.size()));
    const auto blocks = std::span(part).first(
        static_cast<size_t>(elements / BlockElements(type_) * BlockBytes(type_)));
    UnpackBlocks(type_, cell, row % kGroupRows, blocks);
    Decode(context, type_, blocks, out.first(static_cast<size_t>(elements)));
    cell += kGroupRows * std::ssize(blocks);
    out = out.subspan(static_cast<size_t>(elements));
  }
}

}  // namespace thinwire::blocks
