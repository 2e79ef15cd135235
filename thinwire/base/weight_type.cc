#include "thinwire/base/weight_type.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "thinwire/base/checked.h"
#include "thinwire/base/error.h"

namespace thinwire {
namespace {

struct Row {
  WeightType type;
  std::string_view name;
  int64_t elements;
  int64_t bytes;
};

constexpr std::array kRows = {
    Row{WeightType::kF32, "F32", 1, 4},
    Row{WeightType::kF16, "F16", 1, 2},
    Row{WeightType::kQ4_0, "Q4_0", 32, 2 + 16},
    Row{WeightType::kQ4_1, "Q4_1", 32, 4 + 16},
    Row{WeightType::kQ5_0, "Q5_0", 32, 2 + 4 + 16},
    Row{WeightType::kQ5_1, "Q5_1", 32, 4 + 4 + 16},
    Row{WeightType::kQ8_0, "Q8_0", 32, 2 + 32},
    Row{WeightType::kQ2_K, "Q2_K", 256, 16 + 64 + 4},
    Row{WeightType::kQ3_K, "Q3_K", 256, 32 + 64 + 12 + 2},
    Row{WeightType::kQ4_K, "Q4_K", 256, 4 + 12 + 128},
    Row{WeightType::kQ5_K, "Q5_K", 256, 4 + 12 + 32 + 128},
    Row{WeightType::kQ6_K, "Q6_K", 256, 128 + 64 + 16 + 2},
    Row{WeightType::kIQ4_NL, "IQ4_NL", 32, 2 + 16},
    Row{WeightType::kBF16, "BF16", 1, 2},
    Row{WeightType::kMXFP4, "MXFP4", 32, 1 + 16},
};

constexpr auto kTypes = [] {
  std::array<WeightType, kRows.size()> types{};
  std::ranges::transform(kRows, types.begin(), &Row::type);
  return types;
}();

const Row& RowOf(WeightType type) {
  const auto row = std::ranges::find(kRows, type, &Row::type);
  THINWIRE_CHECK(row != kRows.end(), "weight type ", static_cast<uint32_t>(type));
  return *row;
}

bool SameName(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::toupper(x) == std::toupper(y); });
}

}  // namespace

std::span<const WeightType> AllWeightTypes() { return kTypes; }

std::string_view NameOf(WeightType type) { return RowOf(type).name; }

std::optional<WeightType> WeightTypeNamed(std::string_view name) {
  for (const Row& row : kRows) {
    if (SameName(row.name, name)) return row.type;
  }
  return std::nullopt;
}

std::optional<WeightType> WeightTypeNumbered(uint32_t number) {
  for (const Row& row : kRows) {
    if (static_cast<uint32_t>(row.type) == number) return row.type;
  }
  return std::nullopt;
}

int64_t BlockElements(WeightType type) { return RowOf(type).elements; }

int64_t BlockBytes(WeightType type) { return RowOf(type).bytes; }

int64_t WeightBytes(WeightType type, int64_t elements, std::string_view what) {
  const Row& row = RowOf(type);
  if (elements < 0 || elements % row.elements != 0) {
    throw UsageError(StrCat(what, ": ", elements, " elements of ", row.name,
                            ", which come in blocks of ", row.elements));
  }
  return CheckedMul(elements / row.elements, row.bytes, what);
}

}  // namespace thinwire
