#include "thinwire/io/gguf_format.h"

#include <algorithm>

#include "thinwire/base/error.h"

namespace thinwire::io {
namespace {

struct TypeRow {
  std::string_view name;
  int64_t size;
};
// By number.
constexpr std::array<TypeRow, 13> kTypes{{{"u8", 1},
                                          {"i8", 1},
                                          {"u16", 2},
                                          {"i16", 2},
                                          {"u32", 4},
                                          {"i32", 4},
                                          {"f32", 4},
                                          {"bool", 1},
                                          {"string", 0},
                                          {"array", 0},
                                          {"u64", 8},
                                          {"i64", 8},
                                          {"f64", 8}}};

struct OtherWeightType {
  uint32_t number;
  std::string_view name;
  bool removed;
};
constexpr OtherWeightType kOtherWeightTypes[] = {
    {4, "Q4_2", true},        {5, "Q4_3", true},        {9, "Q8_1", false},
    {15, "Q8_K", false},      {16, "IQ2_XXS", false},   {17, "IQ2_XS", false},
    {18, "IQ3_XXS", false},   {19, "IQ1_S", false},     {21, "IQ3_S", false},
    {22, "IQ2_S", false},     {23, "IQ4_XS", false},    {24, "I8", false},
    {25, "I16", false},       {26, "I32", false},       {27, "I64", false},
    {28, "F64", false},       {29, "IQ1_M", false},     {31, "Q4_0_4_4", true},
    {32, "Q4_0_4_8", true},   {33, "Q4_0_8_8", true},   {34, "TQ1_0", false},
    {35, "TQ2_0", false},     {36, "IQ4_NL_4_4", true}, {37, "IQ4_NL_4_8", true},
    {38, "IQ4_NL_8_8", true}, {40, "NVFP4", false},     {41, "Q1_0", false},
    {42, "Q2_0", false},
};

constexpr bool IsContinuation(unsigned char byte) { return (byte & 0xc0) == 0x80; }

// Bytes of the well-formed UTF-8 character (Unicode table 3-7) that `text` begins with; 0: none.
size_t CharacterBytes(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const size_t bytes = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if (!IsContinuation(at(i))) return 0;
  }
  const bool overlong = (lead == 0xe0 && at(1) < 0xa0) || (lead == 0xf0 && at(1) < 0x90);
  const bool surrogate = lead == 0xed && at(1) >= 0xa0;
  const bool beyond = lead == 0xf4 && at(1) >= 0x90;
  return overlong || surrogate || beyond ? 0 : bytes;
}

}  // namespace

std::string_view NameOf(GgufType type) { return kTypes.at(static_cast<size_t>(type)).name; }

std::optional<GgufType> GgufTypeNumbered(uint32_t number) {
  if (number >= kTypes.size()) return std::nullopt;
  return static_cast<GgufType>(number);
}

int64_t SizeOf(GgufType type) { return kTypes.at(static_cast<size_t>(type)).size; }

bool IsInteger(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kU16:
    case GgufType::kI16:
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kU64:
    case GgufType::kI64:
      return true;
    case GgufType::kF32:
    case GgufType::kF64:
    case GgufType::kBool:
    case GgufType::kString:
    case GgufType::kArray:
      return false;
  }
  return false;
}

const char* GgufNameProblem(std::string_view name) {
  if (name.empty()) return "the name is empty";
  if (name.size() > kGgufMaxNameBytes) return "the name is longer than 65535 bytes";
  while (!name.empty()) {
    const unsigned char first = static_cast<unsigned char>(name.front());
    if (first < 0x20 || first == 0x7f) return "the name has control characters";
    const size_t bytes = CharacterBytes(name);
    if (bytes == 0) return "the name is not UTF-8";
    name.remove_prefix(bytes);
  }
  return nullptr;
}

std::string QuotedName(std::string_view name) {
  constexpr size_t kMost = 100;
  if (name.size() <= kMost) return StrCat('"', name, '"');
  size_t cut = kMost;
  while (cut > 0 && IsContinuation(static_cast<unsigned char>(name[cut]))) --cut;
  return StrCat('"', name.substr(0, cut), "...\"");
}

std::string UnreadWeightType(uint32_t number) {
  const auto* const row = std::ranges::find(kOtherWeightTypes, number, &OtherWeightType::number);
  std::string text = StrCat("type ", number);
  if (row == std::end(kOtherWeightTypes)) {
    text += " is unknown";
  } else {
    text +=
        StrCat(" (", row->name, row->removed ? ") was removed from GGUF" : ") is not read here");
  }
  text += "; the types are";
  std::string_view separator = " ";
  for (const WeightType type : AllWeightTypes()) {
    text += StrCat(separator, NameOf(type));
    separator = ", ";
  }
  return text;
}

std::string Describe(const GgufEntry& entry) {
  if (entry.type != GgufType::kArray) return std::string(NameOf(entry.type));
  return StrCat("array of ", entry.count, " ", NameOf(entry.element));
}

int64_t GgufTensor::elements() const {
  int64_t product = 1;  // fits: the reader has checked it
  for (const int64_t extent : shape()) product *= extent;
  return product;
}

}  // namespace thinwire::io
