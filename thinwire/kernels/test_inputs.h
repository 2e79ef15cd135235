// For tests only: inputs that a kernel may get wrong, and byte-exact comparison.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "thinwire/base/context.h"
#include "thinwire/base/dtype.h"
#include "thinwire/base/random.h"

namespace thinwire::kernels {

constexpr std::array<DType, 3> kDTypes{DType::kF32, DType::kBF16, DType::kF16};

// Bit patterns of fp32 at every edge of the three formats.
constexpr uint32_t kEdges[] = {
    0x00000000, 0x80000000,                          // +-0
    0x7f800000, 0xff800000,                          // +-inf
    0x7fc00000, 0xffc00000, 0x7f800001, 0xff812345,  // NaN: quiet, signalling, with payload
    0x7fffffff, 0x7f801fff, 0x7f80ffff, 0xffbfffff,  // NaN: payload in the lower bits only
    0x00000001, 0x807fffff, 0x00800000,              // subnormals and the least normal number
    0x7f7fffff, 0x7f7f7fff, 0x7f7f8000, 0xff7f8001,  // around the largest bf16
    0x477fe000, 0x477fefff, 0x477ff000, 0xc77ff001,  // around the largest fp16
    0x38800000, 0x387fe000, 0x387fefff, 0x387ff000,  // around the least normal fp16
    0x33800000, 0x33000000, 0x33000001, 0x32ffffff,  // around fp16's least subnormal, half of it
    0x3f800000, 0x3f808000, 0x3f818000, 0x3f807fff,  // ties of bf16
    0x3f801000, 0x3f803000, 0x3f800fff, 0xbf801001,  // ties of fp16
};

// Edges and random bit patterns of `dtype`, `size` elements from the byte `offset` on.
inline std::vector<std::byte> Inputs(DType dtype, int64_t size, int64_t offset, uint64_t key) {
  const CounterRandom random(key);
  std::vector<std::byte> bytes(static_cast<size_t>(offset + size * SizeOf(dtype)));
  for (int64_t i = 0; i < size; ++i) {
    const uint64_t draw = random.Bits(static_cast<uint64_t>(i));
    uint32_t bits = static_cast<uint32_t>(draw);
    if (draw >> 62 == 0) bits = kEdges[bits % std::size(kEdges)];
    if (draw >> 62 == 1) bits = (bits & 0x807fffffu) | 0x3f000000u;  // of one magnitude
    const uint16_t half = dtype == DType::kF16
                              ? ToFP16(__builtin_bit_cast(float, bits)).bits
                              : static_cast<uint16_t>(bits >> (draw >> 62 > 1 ? 0 : 16));
    std::byte* out = bytes.data() + offset + i * SizeOf(dtype);
    if (dtype == DType::kF32) {
      std::memcpy(out, &bits, sizeof(bits));
    } else {
      std::memcpy(out, &half, sizeof(half));
    }
  }
  return bytes;
}

inline std::vector<float> Floats(int64_t size, uint64_t key) {
  const std::vector<std::byte> bytes = Inputs(DType::kF32, size, 0, key);
  std::vector<float> floats(static_cast<size_t>(size));
  if (size > 0) std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

// Element i of an array at any address, by base/dtype.h.
inline float ElementAt(ConstArray array, int64_t i) {
  const std::byte* at = array.data + i * SizeOf(array.dtype);
  uint16_t half = 0;
  float word = 0;
  if (array.dtype == DType::kF32) {
    std::memcpy(&word, at, sizeof(word));
    return word;
  }
  std::memcpy(&half, at, sizeof(half));
  return array.dtype == DType::kBF16 ? ToFloat(BF16{half}) : ToFloat(FP16{half});
}

// The documented result of arithmetic that gives NaN.
inline float WithoutPayload(float x) { return x == x ? x : __builtin_bit_cast(float, 0x7fc00000u); }

template <typename T>
::testing::AssertionResult SameBits(std::span<const T> found, std::span<const T> wanted) {
  if (found.size() != wanted.size()) {
    return ::testing::AssertionFailure() << found.size() << " elements, not " << wanted.size();
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::memcmp(&found[i], &wanted[i], sizeof(T)) == 0) continue;
    std::string hex;
    for (const T* value : {&found[i], &wanted[i]}) {
      uint64_t bits = 0;
      std::memcpy(&bits, value, sizeof(T));
      std::ostringstream out;
      out << " 0x" << std::hex << bits;
      hex += out.str();
    }
    return ::testing::AssertionFailure() << "element " << i << ": found, wanted" << hex;
  }
  return ::testing::AssertionSuccess();
}

template <typename T>
::testing::AssertionResult SameBits(const std::vector<T>& found, const std::vector<T>& wanted) {
  return SameBits(std::span<const T>(found), std::span<const T>(wanted));
}

}  // namespace thinwire::kernels
