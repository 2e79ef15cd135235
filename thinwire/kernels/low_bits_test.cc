#include "thinwire/kernels/low_bits.h"

#include <gtest/gtest.h>

#include <vector>

#include "thinwire/kernels/convert.h"
#include "thinwire/kernels/low_bits_testing.h"
#include "thinwire/kernels/sum.h"

namespace thinwire::kernels {
namespace {

constexpr std::array<Clip, 4> kClips{Clip{Clip::Basis::kMax, 0.85f}, Clip{Clip::Basis::kRms, 1.22f},
                                     Clip{Clip::Basis::kMax, 8.0f}, Clip{Clip::Basis::kRms, 0.01f}};

void ExpectReference(const BlockFormat& format, DType dtype, int64_t size, uint64_t key) {
  const size_t offset = key % 5;
  const Clip& clip = kClips[key / 2 % kClips.size()];
  const BlockInputs in(dtype, size, static_cast<int64_t>(key % 3), key);
  const EncodedBlocks wanted = ReferenceClipped(format, clip, in.array, offset);
  for (const Isa isa : SupportedIsas()) {
    const EncodedBlocks found = Clipped(isa, format, clip, in.array, offset);
    ASSERT_TRUE(SameBits(found.scales, wanted.scales))
        << NameOf(isa) << " " << LowBitsName(format.code) << " " << size << " key " << key;
    ASSERT_TRUE(SameBits(found.codes, wanted.codes))
        << NameOf(isa) << " " << LowBitsName(format.code) << " " << size << " key " << key;
  }
}

TEST(LowBits, MatchTheWrittenFormatForEveryTailAndAddress) {
  for (const CodeType code : kClippedTypes) {
    for (const DType dtype : kDTypes) {
      for (int64_t size = 0; size <= 500; ++size) {
        ExpectReference({code, 32 * (1 + size % 4)}, dtype, size, static_cast<uint64_t>(size));
      }
    }
  }
}

TEST(LowBits, MatchTheWrittenFormatForEveryBlockSize) {
  for (const CodeType code : kClippedTypes) {
    for (int64_t block = 32; block <= kLargestBlock; block += 32) {
      for (uint64_t key = 0; key < 16; ++key) ExpectReference({code, block}, DType::kF32, 32, key);
      ExpectReference({code, block}, DType::kF32, 2 * block + block / 2 + 1, 8);
      ExpectReference({code, block}, DType::kBF16, 2 * block + block / 2 + 1, 10);
    }
  }
}

std::string Hex(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte b : bytes) {
    for (const int nibble : {std::to_integer<int>(b) >> 4, std::to_integer<int>(b) & 15}) {
      hex += "0123456789abcdef"[nibble];
    }
  }
  return hex;
}

// By hand: the scale is -1 for int3 and int4 (m = 4 and 8 are positive), 1 for ternary (m = 2).
TEST(LowBits, GoldenBytes) {
  const auto encoded = [](CodeType code, const Clip& clip, std::vector<float> x) {
    const BlockFormat format{code, 32};
    const auto out = Clipped(BestIsa(), format, clip, std::span<const float>(x));
    const auto bytes = std::span(out.codes).first(
        static_cast<size_t>(format.CodeBytes(static_cast<int64_t>(x.size()))));
    return Hex(bytes) + " " + Hex(std::span(out.scales).first(2));
  };
  // Codes -4 -3 -2 -1 0 1 2 3 are 0x688fac; then -4.
  EXPECT_EQ(encoded(CodeType::kInt3, {}, {4, 3, 2, 1, 0, -1, -2, -3, 4}), "ac8f6804 80bf");
  // Codes -8 7 -2 3 -1: 8 has none.
  EXPECT_EQ(encoded(CodeType::kInt4, {}, {8, -8, 2, -3, 1}), "783e0f 80bf");
  // Codes 1 -1 1 0 0 1 in two bytes: digits 2 2 1 1 1 and 0 1 2 1 1, so 229 and 49.
  EXPECT_EQ(encoded(CodeType::kTernary, kTernaryClip, {2, -2, 1, 0.5f, 0.25f, 1.5f}), "f234 803f");
  // 160 elements: code 96 is the fourth digit of byte 0, 1 1 1 2 1, so 124; all others are 121.
  std::vector<float> chunk(160);
  chunk[96] = 1;
  std::string bytes = "83";
  for (int i = 1; i < 32; ++i) bytes += "80";
  EXPECT_EQ(encoded(CodeType::kTernary, {}, chunk).substr(0, 64), bytes);
}

TEST(LowBits, ErrorStaysWithinTheBound) {
  for (const CodeType type : kClippedTypes) {
    const BlockFormat format{type, 64};
    const double reach = ReachOf(type);
    for (uint64_t key = 0; key < 64; ++key) {
      const Clip& clip = kClips[key % kClips.size()];
      const BlockInputs in(DType::kF32, 64 * 8, 0, key);
      const EncodedBlocks encoded = Clipped(BestIsa(), format, clip, in.array);
      for (int64_t i = 0; i < in.array.size; ++i) {
        const double scale = static_cast<double>(ToFloat(BF16{encoded.scale(i / 64)}));
        if (std::isnan(scale)) continue;
        const double x = static_cast<double>(ElementAt(in.array, i));
        const double most_up = type == CodeType::kTernary ? 1 : reach - 1;
        const double value = LowBitsCodeAt(type, encoded.codes.data(), i, in.array.size) * scale;
        const double last = x * scale < 0 ? reach : most_up;  // of the codes on the side of x
        const double half = (0.5 + 0x1p-16) * std::abs(scale);
        const double bound = std::max(half, (std::abs(x) - last * std::abs(scale)) * (1 + 0x1p-20));
        ASSERT_LE(std::abs(x - value), bound) << LowBitsName(type) << " " << x << " " << scale;
      }
    }
  }
}

// With scales of the largest magnitude itself nothing is clipped on its side.
TEST(LowBits, ScalesReachWhatTheyShould) {
  for (const CodeType type : kClippedTypes) {
    for (const float factor : {0.3f, 0.85f, 1.0f, 2.0f}) {
      const BlockInputs in(DType::kF32, 32, 0, 0);  // of a normal distribution
      double most = 0;
      for (int64_t i = 0; i < 32; ++i) {
        most = std::max(most, std::abs(static_cast<double>(ElementAt(in.array, i))));
      }
      const auto encoded = Clipped(BestIsa(), {type, 32}, {Clip::Basis::kMax, factor}, in.array);
      const double reach = std::abs(static_cast<double>(ToFloat(BF16{encoded.scale(0)}))) *
                           ReachOf(type) / static_cast<double>(factor);
      EXPECT_GE(reach, most * (1 - 0x1p-20));
      EXPECT_LE(reach, most * (1 + 0x1p-7 + 0x1p-20));
    }
  }
}

TEST(LowBits, NothingThatIsNotFiniteGetsLost) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const CodeType type : kClippedTypes) {
    const BlockFormat format{type, 32};
    for (const Clip& clip : kClips) {
      for (const float bad : {inf, -inf, std::nanf(""), -std::nanf("1")}) {
        std::vector<float> x(170, -1.0f);
        x[40] = bad;
        x[165] = bad;
        for (const Isa isa : SupportedIsas()) {
          const EncodedBlocks encoded = Clipped(isa, format, clip, std::span<const float>(x));
          EXPECT_EQ(encoded.scale(1), 0x7fc0);
          std::vector<float> out(170);
          Dequantize({isa}, format, encoded.blocks(), std::span<float>(out));
          for (size_t i = 0; i < 170; ++i) {
            EXPECT_EQ(std::isnan(out[i]), (i >= 32 && i < 64) || i >= 160) << i;
          }
        }
      }
    }
  }
}

// Any codes, any scale bits.
EncodedBlocks RandomBlocks(const BlockFormat& format, int64_t size, size_t offset, uint64_t key) {
  EncodedBlocks blocks(format, size, offset);
  const CounterRandom random(key);
  uint64_t at = 0;
  for (auto* bytes : {&blocks.codes, &blocks.scales}) {
    for (std::byte& b : *bytes) b = static_cast<std::byte>(random.Bits(at++));
  }
  return blocks;
}

std::vector<float> ReferenceValues(const BlockFormat& format, const EncodedBlocks& in,
                                   int64_t size) {
  std::vector<float> values(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    const float scale = ToFloat(BF16{in.scale(i / format.block)});
    const double magnitude = std::abs(static_cast<double>(scale));
    const bool known =
        magnitude == 0 || (magnitude >= 0x1p-125 && magnitude <= LargestScaleOf(format.code));
    const int code = LowBitsCodeAt(format.code, in.blocks().codes, i, size);
    values[static_cast<size_t>(i)] =
        WithoutPayload(known ? static_cast<float>(code) * scale : std::nanf(""));
  }
  return values;
}

TEST(LowBits, AnyBytesDecodeAndAddInOrder) {
  for (const CodeType type : {CodeType::kInt3, CodeType::kTernary}) {
    for (int64_t size = 0; size <= 700; size += size < 340 ? 1 : 37) {
      const uint64_t key = static_cast<uint64_t>(size);
      const BlockFormat format{type, 32 * (1 + size % 5)};
      std::vector<EncodedBlocks> blocks;
      std::vector<std::vector<float>> values;
      for (uint64_t t = 0; t < 5; ++t) {
        blocks.push_back(RandomBlocks(format, size, (key + t) % 4, 8 * key + t));
        values.push_back(ReferenceValues(format, blocks[t], size));
      }
      const BlockInputs own(DType::kBF16, size, 1, key);
      std::vector<BlockTerm> terms{{blocks[0].blocks(), {}}, {{}, own.array}};
      std::vector<ConstArray> arrays{std::span<const float>(values[0]), own.array};
      for (size_t t = 1; t < 5; ++t) {
        terms.push_back({std::as_const(blocks[t]).blocks(), {}});
        arrays.push_back(std::span<const float>(values[t]));
      }
      for (const Isa isa : SupportedIsas()) {
        for (const DType dtype : kDTypes) {
          std::vector<std::byte> found(static_cast<size_t>(size * SizeOf(dtype))), wanted = found;
          Dequantize({isa}, format, std::as_const(blocks[0]).blocks(),
                     Array(found.data(), dtype, size));
          Convert({Isa::kScalar}, std::span<const float>(values[0]),
                  Array(wanted.data(), dtype, size));
          ASSERT_TRUE(SameBits(found, wanted)) << NameOf(isa) << " " << LowBitsName(type) << size;
        }
        for (const bool accumulate : {false, true}) {
          std::vector<float> found(static_cast<size_t>(size), 0.25f), wanted = found;
          DequantizeSum({isa}, format, terms, accumulate, found);
          SumInOrder({Isa::kScalar}, arrays, accumulate, wanted);
          ASSERT_TRUE(SameBits(found, wanted)) << NameOf(isa) << " " << LowBitsName(type) << size;
        }
      }
    }
  }
}

TEST(LowBits, EveryFiveDigitsComeBack) {
  std::vector<float> x;
  for (int number = 0; number < 243; ++number) {  // one byte each: 5 elements are an array
    x.clear();
    for (int k = 0, rest = number; k < 5; ++k, rest /= 3) {
      x.push_back(static_cast<float>(rest % 3 - 1));
    }
    const auto encoded =
        Clipped(BestIsa(), {CodeType::kTernary, 32}, {}, std::span<const float>(x));
    std::vector<float> found(5);
    Dequantize({}, {CodeType::kTernary, 32}, encoded.blocks(), std::span<float>(found));
    EXPECT_EQ(found, x);
  }
}

}  // namespace
}  // namespace thinwire::kernels
