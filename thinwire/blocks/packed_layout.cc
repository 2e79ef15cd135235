#include "thinwire/blocks/packed_layout.h"

#include <array>

#include "thinwire/base/error.h"

namespace thinwire::blocks {
namespace {

// Words first where a cell is short, so that they keep its alignment.
constexpr std::array kF32Fields = {PackedField{0, 4, 1}};
constexpr std::array kHalfFields = {PackedField{0, 2, 1}};
constexpr std::array kQ4_0Fields = {PackedField{2, 4, 4}, PackedField{0, 2, 1}};
constexpr std::array kQ4_1Fields = {PackedField{4, 4, 4}, PackedField{0, 2, 2}};
constexpr std::array kQ5_0Fields = {PackedField{6, 4, 4}, PackedField{2, 4, 1},
                                    PackedField{0, 2, 1}};
constexpr std::array kQ5_1Fields = {PackedField{8, 4, 4}, PackedField{4, 4, 1},
                                    PackedField{0, 2, 2}};
constexpr std::array kQ8_0Fields = {PackedField{2, 4, 8}, PackedField{0, 2, 1}};
// Of the K types what all columns need first, then what comes as they go: the processor fetches
// ahead along one stream only.
constexpr std::array kQ2_KFields = {PackedField{80, 2, 2}, PackedField{0, 4, 4},
                                    PackedField{16, 4, 16}};
// The scales' factor, the scales, third bits, lower two bits.
constexpr std::array kQ3_KFields = {PackedField{108, 2, 1}, PackedField{96, 4, 3},
                                    PackedField{0, 4, 8}, PackedField{32, 4, 16}};
constexpr std::array kQ4_KFields = {PackedField{0, 2, 2}, PackedField{4, 4, 3},
                                    PackedField{16, 4, 32}};
// Factors, scales, fifth bits, lower four bits.
constexpr std::array kQ5_KFields = {PackedField{0, 2, 2}, PackedField{4, 4, 3},
                                    PackedField{16, 4, 8}, PackedField{48, 4, 32}};
// The scales' factor, the scales; of each half of the columns upper two bits, lower four.
constexpr std::array kQ6_KFields = {PackedField{208, 2, 1}, PackedField{192, 4, 4},
                                    PackedField{128, 4, 8}, PackedField{0, 4, 16},
                                    PackedField{160, 4, 8}, PackedField{64, 4, 16}};
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
