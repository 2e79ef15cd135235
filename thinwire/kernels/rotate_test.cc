#include "thinwire/kernels/rotate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "thinwire/kernels/convert.h"
#include "thinwire/kernels/low_bits_testing.h"

namespace thinwire::kernels {
namespace {

constexpr std::array<int64_t, 2> kWidths{32, 128};

void ReferenceSegment(uint64_t seed, bool back, std::span<float> x) {
  const float factor = static_cast<float>(1 / std::sqrt(static_cast<double>(x.size())));
  const auto scale = [&] {
    for (size_t i = 0; i < x.size(); ++i) {
      const bool minus = CounterRandom(seed).Bits(i / 64) >> (i % 64) & 1;
      x[i] = x[i] * (minus ? -factor : factor);
    }
  };
  if (!back) scale();
  for (size_t d = 1; d < x.size(); d *= 2) {
    for (size_t i = 0; i < x.size(); ++i) {
      if ((i & d) != 0) continue;
      const float a = x[i], b = x[i + d];
      x[i] = a + b;
      x[i + d] = a - b;
    }
  }
  if (back) scale();
  for (float& value : x) value = WithoutPayload(value);
}

// As rotate.h has it, of the elements as fp32.
std::vector<float> Reference(const Rotation& rotation, const Rows& rows, bool back,
                             std::vector<float> x) {
  size_t row_left = static_cast<size_t>(rows.first);
  for (size_t i = 0; i < x.size();) {
    const size_t left = std::min(row_left, x.size() - i);
    size_t size = static_cast<size_t>(rotation.width);
    while (size > left) size /= 2;
    ReferenceSegment(rotation.seed, back, std::span(x).subspan(i, size));
    i += size;
    row_left -= size;
    if (row_left == 0) row_left = static_cast<size_t>(rows.length);
  }
  return x;
}

std::vector<float> AsFloats(ConstArray in) {
  std::vector<float> x;
  for (int64_t i = 0; i < in.size; ++i) x.push_back(ElementAt(in, i));
  return x;
}

std::vector<float> Normals(int64_t size, uint64_t key) {
  std::vector<float> x;
  for (int64_t i = 0; i < size; ++i) {
    x.push_back(static_cast<float>(CounterRandom(key).Normal(static_cast<uint64_t>(i))));
  }
  return x;
}

Rows RowsFor(int64_t size, uint64_t key) {
  const int64_t length = 1 + static_cast<int64_t>(CounterRandom(key).Bits(0) % 300);
  switch (size % 4) {
    case 0:
      return {};
    case 1:
      return {length, length};
    default:
      return {length,
              1 + static_cast<int64_t>(CounterRandom(key).Bits(1) >> 1) % length * (size % 2)};
  }
}

TEST(Rotate, HasTheBitsThatAreWrittenDown) {
  for (const int64_t width : kWidths) {
    for (int64_t size = 0; size <= 700; ++size) {
      const uint64_t key = static_cast<uint64_t>(size);
      const DType dtype = kDTypes[key % 3];
      const Rotation rotation{width, key / 3};
      const Rows rows = RowsFor(size, key);
      const auto bytes = Inputs(dtype, size, size % 5, key);
      const ConstArray in(bytes.data() + size % 5, dtype, size);
      const BlockInputs blocks(dtype, size, 1, key);
      for (const ConstArray& array : {in, blocks.array}) {
        const std::vector<float> x = AsFloats(array);
        const std::vector<float> forth = Reference(rotation, rows, false, x);
        const std::vector<float> back = Reference(rotation, rows, true, x);
        for (const Isa isa : SupportedIsas()) {
          std::vector<float> found(static_cast<size_t>(size));
          Rotate({isa}, rotation, rows, array, found);
          ASSERT_TRUE(SameBits(found, forth)) << NameOf(isa) << " " << width << " " << size;
          RotateBack({isa}, rotation, rows, x, found);
          ASSERT_TRUE(SameBits(found, back)) << NameOf(isa) << " " << width << " " << size;
          found = x;
          Rotate({isa}, rotation, rows, std::span<const float>(found), found);
          ASSERT_TRUE(SameBits(found, forth)) << "in place";
          found = x;
          RotateBack({isa}, rotation, rows, found, found);
          ASSERT_TRUE(SameBits(found, back)) << "in place";
        }
      }
    }
  }
}

double Norm(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

TEST(Rotate, IsOrthonormalAndBackIsItsInverse) {
  for (const int64_t width : kWidths) {
    for (const int64_t size : {1, 2, 3, 31, 100, 128, 5000}) {
      const std::vector<float> x = Normals(size, 1);
      const Rows rows{97, 13};
      std::vector<float> y(x.size());
      Rotate({}, {width, 5}, rows, std::span<const float>(x), y);
      EXPECT_NEAR(Norm(y), Norm(x), 1e-6 * Norm(x));
      RotateBack({}, {width, 5}, rows, y, y);
      for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(y[i], x[i], 3e-6);
    }
  }
}

// One large element among 32 or 128 ends as equal parts of all.
TEST(Rotate, SpreadsWhatIsLarge) {
  for (const int64_t width : kWidths) {
    std::vector<float> x(static_cast<size_t>(width)), y(x.size());
    x[7] = 100;
    Rotate({}, {width, 1}, {}, std::span<const float>(x), y);
    for (const float value : y) {
      EXPECT_NEAR(std::abs(value), 100 / std::sqrt(static_cast<float>(width)), 1e-4);
    }
  }
}

TEST(Rotate, RowsAreRotatedEachForItselfAndZeroRowsStayZero) {
  for (const int64_t width : kWidths) {
    for (const int64_t length : {1, 5, 32, 100, 128, 129, 300}) {
      const int64_t first = (length + 1) / 2, size = first + 3 * length + length / 3;
      std::vector<float> x = Normals(size, 2), y(x.size());
      std::fill_n(x.begin() + first + length, length, 0.0f);  // the third row
      Rotate({}, {width, 9}, {length, first}, std::span<const float>(x), y);
      for (int64_t begin = 0; begin < size;) {
        const int64_t row = std::min(begin == 0 ? first : length, size - begin);
        const auto at = [&](std::vector<float>& all) {
          return std::span(all).subspan(static_cast<size_t>(begin), static_cast<size_t>(row));
        };
        std::vector<float> alone(static_cast<size_t>(row));
        Rotate({}, {width, 9}, {}, std::span<const float>(at(x)), alone);
        EXPECT_TRUE(SameBits<float>(at(y), alone));
        if (begin == first + length) {
          EXPECT_EQ(Norm(at(y)), 0);
        }
        begin += row;
      }
    }
  }
}

TEST(Rotate, OtherSeedsHaveOtherSigns) {
  const std::vector<float> x(128, 1.0f);
  std::vector<float> a(128), b(128);
  Rotate({}, {128, 1}, {}, std::span<const float>(x), a);
  Rotate({}, {128, 2}, {}, std::span<const float>(x), b);
  EXPECT_NE(a, b);
}

struct Formatted {
  BlockFormat format;
  ScaleRule rule;
};

std::vector<Formatted> Formats(int64_t block) {
  return {{{CodeType::kInt8, block}, ScaleChoice::kExtreme},
          {{CodeType::kInt4, block}, ScaleChoice::kSearched},
          {{CodeType::kInt4, block}, kInt4Clip},
          {{CodeType::kInt3, block}, kInt3Clip},
          {{CodeType::kTernary, block}, Clip{Clip::Basis::kRms, 1.22f}}};
}

void ExpectFusedAsInSteps(const Rotation& rotation, const Rows& rows, const Formatted& f,
                          DType dtype, int64_t size) {
  const BlockInputs in(dtype, size, 1, 16 + static_cast<uint64_t>(size));
  std::vector<float> rotated(static_cast<size_t>(size)), back = rotated;
  Rotate({}, rotation, rows, in.array, rotated);
  EncodedBlocks wanted(f.format, size, 1);
  QuantizeBy({}, f.format, f.rule, std::span<const float>(rotated), wanted.blocks());
  Dequantize({}, f.format, wanted.blocks(), std::span<float>(back));
  RotateBack({}, rotation, rows, back, back);
  std::vector<std::byte> decoded(static_cast<size_t>(size * SizeOf(dtype)) + 1);
  const Array expected(decoded.data() + 1, dtype, size);
  Convert({}, std::span<const float>(back), expected);
  for (const Isa isa : SupportedIsas()) {
    EncodedBlocks found(f.format, size, 1);
    RotateQuantize({isa}, rotation, rows, f.format, f.rule, in.array, found.blocks());
    ASSERT_TRUE(found == wanted) << NameOf(isa) << " " << size << " rows of " << rows.length;
    std::vector<std::byte> values(decoded.size());
    DequantizeRotateBack({isa}, rotation, rows, f.format, wanted.blocks(),
                         Array(values.data() + 1, dtype, size));
    ASSERT_TRUE(SameBits(values, decoded)) << NameOf(isa) << " " << size;
  }
}

TEST(Rotate, FusedWithQuantizationIsTheSameInSteps) {
  for (const int64_t block : {32, 128, 416, 2080, 4096}) {
    for (const Formatted& f : Formats(block)) {
      uint64_t key = 0;
      for (const int64_t size : {0, 1, 100, 4095, 12'345, 45'002}) {
        const Rotation rotation{kWidths[key % 2], key};
        const DType dtype = kDTypes[++key % 3];
        ExpectFusedAsInSteps(rotation, {}, f, dtype, size);
        ExpectFusedAsInSteps(rotation, {300, 33}, f, dtype, size);
        ExpectFusedAsInSteps(rotation, {4097, 4097}, f, dtype, size);
      }
      ExpectFusedAsInSteps({128, 1}, {7, 3}, f, DType::kF32, 9000);
    }
  }
}

TEST(Rotate, WhatIsNotFiniteIsReported) {
  std::vector<float> x(256, 1.0f);
  x[140] = std::numeric_limits<float>::infinity();
  for (const Formatted& f : Formats(128)) {
    EncodedBlocks encoded(f.format, 256, 0);
    RotateQuantize({}, {32, 1}, {}, f.format, f.rule, std::span<const float>(x), encoded.blocks());
    EXPECT_NE(encoded.scale(0), 0x7fc0);
    EXPECT_EQ(encoded.scale(1), 0x7fc0);
  }
}

}  // namespace
}  // namespace thinwire::kernels
