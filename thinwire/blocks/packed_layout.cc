#include "thinwire/blocks/packed_layout.h"

#include <array>

#include "thinwire/base/error.h"

namespace thinwire::blocks {
namespace {

// Words first, so that they keep the alignment of the cell.
constexpr std::array kF32Fields = {PackedField{0, 4, 1}};
constexpr std::array kHalfFields = {PackedField{0, 2, 1}};
constexpr std::array kQ4_0Fields = {PackedField{2, 4, 4}, PackedField{0, 2, 1}};
constexpr std::array kQ4_1Fields = {PackedField{4, 4, 4}, PackedField{0, 2, 2}};
constexpr std::array kQ5_0Fields = {PackedField{6, 4, 4}, PackedField{2, 4, 1},
                                    PackedField{0, 2, 1}};
constexpr std::array kQ5_1Fields = {PackedField{8, 4, 4}, PackedField{4, 4, 1},
                                    PackedField{0, 2, 2}};
constexpr std::array kQ8_0Fields = {PackedField{2, 4, 8}, PackedField{0, 2, 1}};
// Codes, scales with minima in 4 bits each, the factors of both.
constexpr std::array kQ2_KFields = {PackedField{16, 4, 16}, PackedField{0, 4, 4},
                                    PackedField{80, 2, 2}};
// Lower two bits, third bits, scales, their factor.
constexpr std::array kQ3_KFields = {PackedField{32, 4, 16}, PackedField{0, 4, 8},
                                    PackedField{96, 4, 3}, PackedField{108, 2, 1}};
constexpr std::array kQ4_KFields = {PackedField{16, 4, 32}, PackedField{4, 4, 3},
                                    PackedField{0, 2, 2}};
// Lower four bits, fifth bits, scales, their factors.
constexpr std::array kQ5_KFields = {PackedField{48, 4, 32}, PackedField{16, 4, 8},
                                    PackedField{4, 4, 3}, PackedField{0, 2, 2}};
// Lower four bits, upper two, scales, their factor.
constexpr std::array kQ6_KFields = {PackedField{0, 4, 32}, PackedField{128, 4, 16},
                                    PackedField{192, 4, 4}, PackedField{208, 2, 1}};
constexpr std::array kMXFP4Fields = {PackedField{1, 4, 4}, PackedField{0, 1, 1}};

}  // namespace

std::span<const PackedField> PackedFields(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return kF32Fields;
    case WeightType::kF16:
    case WeightType::kBF16:
      return kHalfFields;
    case WeightType::kQ4_0:
    case WeightType::kIQ4_NL:
      return kQ4_0Fields;
    case WeightType::kQ4_1:
      return kQ4_1Fields;
    case WeightType::kQ5_0:
      return kQ5_0Fields;
    case WeightType::kQ5_1:
      return kQ5_1Fields;
    case WeightType::kQ8_0:
      return kQ8_0Fields;
    case WeightType::kQ2_K:
      return kQ2_KFields;
    case WeightType::kQ3_K:
      return kQ3_KFields;
    case WeightType::kQ4_K:
      return kQ4_KFields;
    case WeightType::kQ5_K:
      return kQ5_KFields;
    case WeightType::kQ6_K:
      return kQ6_KFields;
    case WeightType::kMXFP4:
      return kMXFP4Fields;
  }
  THINWIRE_CHECK(false, "weight type ", static_cast<uint32_t>(type));
  return {};
}

}  // namespace thinwire::blocks
