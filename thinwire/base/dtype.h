// Element types of parameters and messages, and untyped views of arrays of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "thinwire/base/error.h"

namespace thinwire {

enum class DType : uint8_t { kF32, kBF16, kF16 };

constexpr int64_t SizeOf(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }
constexpr std::string_view NameOf(DType dtype) {
  return dtype == DType::kF32 ? "fp32" : dtype == DType::kBF16 ? "bf16" : "fp16";
}

// bfloat16: the upper half of an fp32.
struct BF16 {
  uint16_t bits;
};
// IEEE binary16.
struct FP16 {
  uint16_t bits;
};

// Conversions round to nearest even. A NaN keeps its sign and the upper bits of its payload and
// becomes quiet, except from bf16 to fp32, which only moves bits: that is what x86's and Arm's
// instructions do, so kernels may use them. Subnormals of fp16 never pass through subnormals of
// fp32, so a flush-to-zero mode set by somebody else changes nothing.
//
// Always inlined and without branches: kernels compile them once per instruction set, vectorized,
// and no copy with one set's instructions can become the one that the whole program links.
#define THINWIRE_INLINE [[gnu::always_inline]] inline

THINWIRE_INLINE constexpr float ToFloat(BF16 x) {
  return __builtin_bit_cast(float, uint32_t{x.bits} << 16);
}

THINWIRE_INLINE constexpr BF16 ToBF16(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const uint32_t quiet = bits | 0x400000u;
  return {static_cast<uint16_t>(((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded) >> 16)};
}

// All ones where the condition holds. GCC turns ternaries over several values into jumps, which do
// not vectorize.
THINWIRE_INLINE constexpr uint32_t Mask(bool condition) { return 0u - uint32_t{condition}; }
THINWIRE_INLINE constexpr uint32_t Select(bool condition, uint32_t yes, uint32_t no) {
  return (yes & Mask(condition)) | (no & ~Mask(condition));
}

THINWIRE_INLINE constexpr float ToFloat(FP16 x) {
  const uint32_t sign = (uint32_t{x.bits} & 0x8000u) << 16;
  const uint32_t magnitude = x.bits & 0x7fffu;
  constexpr uint32_t kBias = (127 - 15) << 23;  // between the exponents of both formats
  // 0.5f has an ulp of 2^-24, the unit of fp16's subnormals.
  const uint32_t subnormal =
      __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, 0x3f000000u | magnitude) - 0.5f);
  const uint32_t finite = Select(magnitude < 0x400u, subnormal, (magnitude << 13) + kBias);
  // The bias once more takes the exponent of inf and NaN from 31 + 112 to 255.
  const uint32_t any = finite + (Mask(magnitude >= 0x7c00u) & kBias);
  return __builtin_bit_cast(float, sign | any | (Mask(magnitude > 0x7c00u) & 0x400000u));
}

THINWIRE_INLINE constexpr FP16 ToFP16(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t bounded = magnitude < 0x47800000u ? magnitude : 0x47800000u;  // 65536 becomes inf
  const uint32_t normal = (bounded + 0xfffu + ((bounded >> 13) & 1u) - 0x38000000u) >> 13;
  // Below 2^-14 the sum with 0.5f, whose ulp is 2^-24, rounds at the right place.
  const uint32_t subnormal =
      __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, bounded) + 0.5f) - 0x3f000000u;
  const uint32_t rounded = Select(magnitude < 0x38800000u, subnormal, normal);
  const uint32_t nan = 0x200u | ((magnitude >> 13) & 0x3ffu);
  return {static_cast<uint16_t>(sign | rounded | (Mask(magnitude > 0x7f800000u) & nan))};
}

template <typename T>
constexpr DType kDTypeOf = DType::kF32;
template <>
inline constexpr DType kDTypeOf<BF16> = DType::kBF16;
template <>
inline constexpr DType kDTypeOf<FP16> = DType::kF16;

// A read-only array of `size` elements of `dtype`, contiguous, not owned.
struct ConstArray {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  int64_t size = 0;

  ConstArray() = default;
  ConstArray(const std::byte* d, DType t, int64_t n) : data(d), dtype(t), size(n) {}
  template <typename T>
  ConstArray(std::span<const T> s)  // NOLINT: a view converts as a span does
      : data(reinterpret_cast<const std::byte*>(s.data())),
        dtype(kDTypeOf<T>),
        size(static_cast<int64_t>(s.size())) {}

  int64_t bytes() const { return size * SizeOf(dtype); }
  ConstArray Sub(int64_t begin, int64_t count) const {
    THINWIRE_CHECK(begin >= 0 && count >= 0 && begin <= size - count, begin, "+", count, " of ",
                   size);
    return {data + begin * SizeOf(dtype), dtype, count};
  }
  template <typename T>
  std::span<const T> As() const {
    THINWIRE_CHECK(dtype == kDTypeOf<T>, "array of ", NameOf(dtype));
    return {reinterpret_cast<const T*>(data), static_cast<size_t>(size)};
  }
};

// The same, writable.
struct Array {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  int64_t size = 0;

  Array() = default;
  Array(std::byte* d, DType t, int64_t n) : data(d), dtype(t), size(n) {}
  template <typename T>
  Array(std::span<T> s)  // NOLINT: a view converts as a span does
      : data(reinterpret_cast<std::byte*>(s.data())),
        dtype(kDTypeOf<T>),
        size(static_cast<int64_t>(s.size())) {}

  operator ConstArray() const {
    return {data, dtype, size};
  }  // NOLINT: as span<T> to span<const T>
  int64_t bytes() const { return size * SizeOf(dtype); }
  Array Sub(int64_t begin, int64_t count) const {
    THINWIRE_CHECK(begin >= 0 && count >= 0 && begin <= size - count, begin, "+", count, " of ",
                   size);
    return {data + begin * SizeOf(dtype), dtype, count};
  }
  template <typename T>
  std::span<T> As() const {
    THINWIRE_CHECK(dtype == kDTypeOf<T>, "array of ", NameOf(dtype));
    return {reinterpret_cast<T*>(data), static_cast<size_t>(size)};
  }
};

}  // namespace thinwire
