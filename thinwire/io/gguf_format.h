// The words of GGUF files that reader and writer share: types of metadata, limits, names.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/base/weight_type.h"

namespace thinwire::io {

// The numbers are those in the files.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// "u8", "f32", "string" ...
std::string_view NameOf(GgufType type);
std::optional<GgufType> GgufTypeNumbered(uint32_t number);
// Bytes of a value; 0 for strings and arrays, whose values say it themselves.
int64_t SizeOf(GgufType type);
bool IsInteger(GgufType type);

// The type in a file of a C++ type; std::string_view is a string.
template <typename T>
inline constexpr GgufType kGgufTypeOf = T::none;
template <>
inline constexpr GgufType kGgufTypeOf<uint8_t> = GgufType::kU8;
template <>
inline constexpr GgufType kGgufTypeOf<int8_t> = GgufType::kI8;
template <>
inline constexpr GgufType kGgufTypeOf<uint16_t> = GgufType::kU16;
template <>
inline constexpr GgufType kGgufTypeOf<int16_t> = GgufType::kI16;
template <>
inline constexpr GgufType kGgufTypeOf<uint32_t> = GgufType::kU32;
template <>
inline constexpr GgufType kGgufTypeOf<int32_t> = GgufType::kI32;
template <>
inline constexpr GgufType kGgufTypeOf<float> = GgufType::kF32;
template <>
inline constexpr GgufType kGgufTypeOf<bool> = GgufType::kBool;
template <>
inline constexpr GgufType kGgufTypeOf<std::string_view> = GgufType::kString;
template <>
inline constexpr GgufType kGgufTypeOf<uint64_t> = GgufType::kU64;
template <>
inline constexpr GgufType kGgufTypeOf<int64_t> = GgufType::kI64;
template <>
inline constexpr GgufType kGgufTypeOf<double> = GgufType::kF64;

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr uint32_t kGgufVersion = 3;  // 2 differs only in that it knows no big-endian files
inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";
inline constexpr uint32_t kGgufAlignment = 32;  // where a file says nothing else
inline constexpr size_t kGgufMaxRank = 4;
// Far above what models have (about 50 keys and 1000 tensors, with a tensor per expert 50 000), so
// that a malformed file ends within a second.
inline constexpr uint64_t kGgufMaxKeys = 1 << 16;
inline constexpr uint64_t kGgufMaxTensors = 1 << 18;
inline constexpr uint64_t kGgufMaxNameBytes = (1 << 16) - 1;  // the format's limit for keys

// Null, or why this is no name of a key or a tensor: empty, longer than kGgufMaxNameBytes, not
// UTF-8, or with control characters.
const char* GgufNameProblem(std::string_view name);
// In quotes, cut off where it is long: for messages.
std::string QuotedName(std::string_view name);

// What a file calls type `number` where WeightTypeNumbered knows none: "type 16 (IQ2_XXS) is not
// read here", "type 4 (Q4_2) was removed from GGUF", "type 999 is unknown"; with the types there
// are.
std::string UnreadWeightType(uint32_t number);

// One entry of the metadata. The views lie in the file.
struct GgufEntry {
  std::string_view key;
  GgufType type = GgufType::kU8;
  GgufType element = GgufType::kU8;  // of an array; else the type itself
  int64_t count = 1;                 // elements of an array
  // The value, or the elements one after the other, little-endian and unaligned. A string stands
  // here without its length; each one in an array behind a u64 with its length.
  std::span<const std::byte> value;
};

// "u32", "array of 49152 strings"
std::string Describe(const GgufEntry& entry);

struct GgufTensor {
  std::string_view name;
  WeightType type = WeightType::kF32;
  // The outermost extent first, so a matrix is rows, columns (the file has it the other way round).
  std::span<const int64_t> shape() const { return {extents.data(), rank}; }
  std::array<int64_t, kGgufMaxRank> extents{};
  size_t rank = 0;
  std::span<const std::byte> data;  // aligned to the file's alignment

  int64_t columns() const { return rank == 0 ? 1 : extents[rank - 1]; }
  int64_t elements() const;
};

}  // namespace thinwire::io
