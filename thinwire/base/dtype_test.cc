#include "thinwire/base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "thinwire/base/random.h"

namespace thinwire {
namespace {

// A binary format by its definition, in fp64, which holds every value and every tie exactly.
struct Format {
  int mantissa_bits;
  int exponent_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }

  double Value(uint32_t bits) const {
    const uint32_t magnitude = bits & 0x7fffu;
    const int exponent = static_cast<int>(magnitude >> mantissa_bits);
    const double mantissa = magnitude & ((1u << mantissa_bits) - 1);
    const double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias() - mantissa_bits)
                                       : std::ldexp(mantissa + (1 << mantissa_bits),
                                                    exponent - bias() - mantissa_bits);
    return bits & 0x8000u ? -value : value;
  }

  // The nearest value's bits, ties to even, for x that is not NaN.
  uint32_t Nearest(double x) const {
    const uint32_t sign = std::signbit(x) ? 0x8000u : 0u;
    const double magnitude = std::fabs(x);
    // Bits of one sign are ordered as their values are; `infinity` stands for the next power of 2.
    uint32_t low = 0, high = infinity();
    if (magnitude >= Value(high)) return sign | high;
    while (high - low > 1) {
      const uint32_t middle = (low + high) / 2;
      (Value(middle) <= magnitude ? low : high) = middle;
    }
    const double below = magnitude - Value(low), above = Value(high) - magnitude;
    return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
  }
};

constexpr Format kBF16{7, 8};
constexpr Format kFP16{10, 5};

float FromBits(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t BitsOf(float x) { return std::bit_cast<uint32_t>(x); }

TEST(BF16, EveryValueIsWhatItsBitsSayAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const float x = ToFloat(BF16{static_cast<uint16_t>(bits)});
    ASSERT_EQ(BitsOf(x), bits << 16);
    const bool is_nan = (bits & 0x7fffu) > kBF16.infinity();
    ASSERT_EQ(std::isnan(x), is_nan);
    ASSERT_EQ(ToBF16(x).bits, is_nan ? bits | 0x40u : bits) << std::hex << bits;
    if ((bits & 0x7fffu) < kBF16.infinity()) {
      ASSERT_EQ(static_cast<double>(x), kBF16.Value(bits));
    }
  }
}

TEST(FP16, EveryValueIsWhatItsBitsSayAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const float x = ToFloat(FP16{static_cast<uint16_t>(bits)});
    const uint32_t magnitude = bits & 0x7fffu;
    if (magnitude > kFP16.infinity()) {
      ASSERT_TRUE(std::isnan(x));
      ASSERT_EQ(BitsOf(x), ((bits & 0x8000u) << 16) | 0x7fc00000u | ((bits & 0x3ffu) << 13));
      ASSERT_EQ(ToFP16(x).bits, bits | 0x200u);
    } else {
      ASSERT_EQ(ToFP16(x).bits, bits) << std::hex << bits;
      ASSERT_EQ(std::signbit(x), bits >> 15 == 1);
      if (magnitude == kFP16.infinity()) {
        ASSERT_TRUE(std::isinf(x));
      } else {
        ASSERT_EQ(static_cast<double>(x), kFP16.Value(bits)) << std::hex << bits;
      }
    }
  }
}

void ExpectNearest(float x) {
  if (std::isnan(x)) {
    ASSERT_EQ(ToBF16(x).bits, (BitsOf(x) >> 16) | 0x40u);
    ASSERT_EQ(ToFP16(x).bits,
              ((BitsOf(x) >> 16) & 0x8000u) | 0x7e00u | ((BitsOf(x) >> 13) & 0x3ffu));
    return;
  }
  ASSERT_EQ(ToBF16(x).bits, kBF16.Nearest(static_cast<double>(x))) << std::hexfloat << x;
  ASSERT_EQ(ToFP16(x).bits, kFP16.Nearest(static_cast<double>(x))) << std::hexfloat << x;
}

// Every value of both formats, the midpoint to the next one, and the fp32 numbers beside both.
TEST(Rounding, IsToNearestEvenAroundEveryValueAndTie) {
  for (uint32_t half = 0; half < 0x10000u; ++half) {
    const uint32_t bf16 = half << 16;
    const uint32_t fp16 = BitsOf(ToFloat(FP16{static_cast<uint16_t>(half)}));
    const double next = kFP16.Value(half + 1 < 0x10000u ? half + 1 : half);
    const uint32_t middle = BitsOf(static_cast<float>((kFP16.Value(half) + next) / 2));
    for (const uint32_t center : {bf16, bf16 + 0x8000u, fp16, middle}) {
      for (const uint32_t bits : {center - 1, center, center + 1}) ExpectNearest(FromBits(bits));
    }
  }
}

TEST(Rounding, IsToNearestEvenForAnyBits) {
  const CounterRandom random(1);
  for (uint64_t i = 0; i < 200000; ++i) {
    const auto bits = static_cast<uint32_t>(random.Bits(i));
    ExpectNearest(FromBits(bits));
    ExpectNearest(FromBits((bits & 0x8fffffffu) | 0x30000000u));  // where fp16 lives
  }
}

TEST(Rounding, IsConstexpr) {
  static_assert(ToFP16(65519.0f).bits == 0x7bff && ToFP16(65520.0f).bits == 0x7c00);
  static_assert(ToFP16(0x1p-25f).bits == 0 && ToFP16(0x1.8p-24f).bits == 2);
  static_assert(ToBF16(0x1.01p0f).bits == 0x3f80 && ToBF16(0x1.03p0f).bits == 0x3f82);
  static_assert(ToFloat(FP16{0x3555}) == 0x1.554p-2f && ToFloat(FP16{1}) == 0x1p-24f);
}

TEST(Array, ViewsAndTheirPieces) {
  std::vector<float> floats{1, 2, 3, 4};
  const Array array = std::span(floats);
  EXPECT_EQ(array.dtype, DType::kF32);
  EXPECT_EQ(array.bytes(), 16);
  array.Sub(1, 2).As<float>()[1] = 7;
  EXPECT_EQ(floats, (std::vector<float>{1, 2, 7, 4}));
  const ConstArray view = array;
  EXPECT_EQ(view.Sub(2, 1).As<float>()[0], 7);
  EXPECT_EQ(view.Sub(4, 0).size, 0);
  EXPECT_EQ(Array(array.data, DType::kBF16, 3).bytes(), 6);
  EXPECT_THROW(view.As<BF16>(), InternalError);
  EXPECT_THROW(view.Sub(3, 2), InternalError);
  EXPECT_THROW(view.Sub(-1, 2), InternalError);
  EXPECT_THROW(array.Sub(1, std::numeric_limits<int64_t>::max()), InternalError);
}

TEST(DTypes, NamesAndSizes) {
  EXPECT_EQ(NameOf(DType::kF32), "fp32");
  EXPECT_EQ(NameOf(DType::kBF16), "bf16");
  EXPECT_EQ(NameOf(DType::kF16), "fp16");
  EXPECT_EQ(SizeOf(DType::kF32), 4);
  EXPECT_EQ(SizeOf(DType::kBF16), 2);
  EXPECT_EQ(SizeOf(DType::kF16), 2);
}

}  // namespace
}  // namespace thinwire
