#include "thinwire/blocks/encode.h"

#include <bit>
#include <cmath>
#include <limits>

#include "thinwire/blocks/encode_isa.h"
#include "thinwire/kernels/convert.h"

namespace thinwire::blocks {
namespace {

constexpr float kLargestHalf = 65504.0f;
// Half an ulp below 2^128 - 2^120, the largest bf16, still rounds to it.
constexpr float kLargestBF16 = 0x1.fep127f;

[[noreturn]] void RefuseValue(WeightType type, const EncodeRows& rows) {
  for (size_t i = 0; i < rows.values.size(); ++i) {
    const float value = rows.values[i];
    if (std::fabs(value) <= LargestEncodable(type)) continue;
    const auto place = static_cast<int64_t>(i);
    const std::string where = StrCat(rows.name, ": row ", rows.first_row + place / rows.columns,
                                     ", column ", place % rows.columns, " is ", value);
    if (!std::isfinite(value)) throw UsageError(StrCat(where, ": only finite weights are encoded"));
    throw UsageError(StrCat(where, ", but ", NameOf(type), " holds at most ",
                            LargestEncodable(type), ": keep this tensor in F32 or BF16"));
  }
  THINWIRE_CHECK(false, "no value to refuse");
}

void RequireImportance(const EncodeRows& rows) {
  if (rows.importance.empty()) return;
  THINWIRE_CHECK(static_cast<int64_t>(rows.importance.size()) == rows.columns,
                 rows.importance.size(), " importances of ", rows.columns, " columns");
  for (size_t column = 0; column < rows.importance.size(); ++column) {
    const float x = rows.importance[column];
    if (x >= 0.0f && std::isfinite(x)) continue;
    throw UsageError(StrCat(rows.name, ": the importance of column ", column, " is ", x,
                            ": expected a finite number >= 0"));
  }
}

}  // namespace

float LargestEncodable(WeightType type) {
  switch (type) {
    case WeightType::kF32:
    case WeightType::kMXFP4:
      return std::numeric_limits<float>::max();
    case WeightType::kBF16:
      return kLargestBF16;
    case WeightType::kF16:
    case WeightType::kQ4_1:  // the min is one half by itself
    case WeightType::kQ5_1:
      return kLargestHalf;
    case WeightType::kQ4_0:
      return kLargestHalf * 7;
    case WeightType::kQ5_0:
      return kLargestHalf * 15;
    case WeightType::kQ8_0:
      return kLargestHalf * 127;
    case WeightType::kIQ4_NL:
      return kLargestHalf * 113;
    case WeightType::kQ2_K:
      return kLargestHalf * 15;
    case WeightType::kQ3_K:
      return kLargestHalf * 31 * 3;
    case WeightType::kQ4_K:
    case WeightType::kQ5_K:
      return kLargestHalf * 63;
    case WeightType::kQ6_K:
      return kLargestHalf * 127 * 31;
  }
  THINWIRE_CHECK(false, "weight type ", static_cast<uint32_t>(type));
}

void Encode(const ExecContext& context, WeightType type, const EncodeRows& rows,
            std::span<std::byte> blocks) {
  const auto elements = static_cast<int64_t>(rows.values.size());
  THINWIRE_CHECK(rows.columns > 0 && elements % rows.columns == 0, elements,
                 " elements in rows of ", rows.columns);
  WeightBytes(type, rows.columns, rows.name);
  const int64_t bytes = WeightBytes(type, elements, rows.name);
  THINWIRE_CHECK(bytes == static_cast<int64_t>(blocks.size()), blocks.size(), " bytes of ",
                 NameOf(type), " for ", elements, " elements");
  RequireImportance(rows);
  const uint32_t largest = THINWIRE_PICK(context.isa, LargestBits)(rows.values.data(), elements);
  if (largest > std::bit_cast<uint32_t>(LargestEncodable(type))) RefuseValue(type, rows);
  const ConstArray values(rows.values);
  switch (type) {
    case WeightType::kF32:
      return kernels::Convert(context, values, {blocks.data(), DType::kF32, elements});
    case WeightType::kF16:
      return kernels::Convert(context, values, {blocks.data(), DType::kF16, elements});
    case WeightType::kBF16:
      return kernels::Convert(context, values, {blocks.data(), DType::kBF16, elements});
    default:
      THINWIRE_PICK(context.isa, EncodeBlocks)
      (type, rows.values.data(), rows.importance.empty() ? nullptr : rows.importance.data(),
       rows.columns, elements, blocks.data());
  }
}

}  // namespace thinwire::blocks
