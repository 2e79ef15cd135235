// Element types of parameters and messages, and untyped views of arrays of them.
#pragma once

#include <bit>
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

// bfloat16: the upper half of an fp32. Rounds to nearest even, keeps NaN a NaN.
struct BF16 {
  uint16_t bits;
};
// IEEE binary16.
struct FP16 {
  uint16_t bits;
};

constexpr float ToFloat(BF16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }
constexpr BF16 ToBF16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
float ToFloat(FP16 x);
FP16 ToFP16(float x);

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
    THINWIRE_CHECK(begin >= 0 && count >= 0 && begin <= size - count, begin, "+", count, " of ", size);
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

  operator ConstArray() const { return {data, dtype, size}; }  // NOLINT: as span<T> to span<const T>
  int64_t bytes() const { return size * SizeOf(dtype); }
  Array Sub(int64_t begin, int64_t count) const {
    THINWIRE_CHECK(begin >= 0 && count >= 0 && begin <= size - count, begin, "+", count, " of ", size);
    return {data + begin * SizeOf(dtype), dtype, count};
  }
  template <typename T>
  std::span<T> As() const {
    THINWIRE_CHECK(dtype == kDTypeOf<T>, "array of ", NameOf(dtype));
    return {reinterpret_cast<T*>(data), static_cast<size_t>(size)};
  }
};

}  // namespace thinwire
