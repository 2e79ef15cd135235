// Number types of stored weights: the ggml types of GGUF files that this project reads and writes.
// Values and byte layouts: thinwire/blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace thinwire {

// The numbers are those in GGUF files.
enum class WeightType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kBF16 = 30,
  kMXFP4 = 39,
};

// All of them, by number.
std::span<const WeightType> AllWeightTypes();

// As in llama.cpp's listings: "F32", "Q4_1", "Q6_K" ...
std::string_view NameOf(WeightType type);
// By that name, upper or lower case.
std::optional<WeightType> WeightTypeNamed(std::string_view name);
// None for numbers that are removed, unknown or not read here.
std::optional<WeightType> WeightTypeNumbered(uint32_t number);

// A row of a matrix is a whole number of blocks, each of so many elements ...
int64_t BlockElements(WeightType type);
// ... in so many bytes.
int64_t BlockBytes(WeightType type);

// Bytes of `elements` (a multiple of BlockElements, >= 0). Throws UsageError naming `what` when
// they are no multiple or the result does not fit 64 bits.
int64_t WeightBytes(WeightType type, int64_t elements, std::string_view what);

}  // namespace thinwire
