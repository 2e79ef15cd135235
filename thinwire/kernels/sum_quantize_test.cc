// DequantizeSumQuantize on messages made of any codes and scales, also ones that no Quantize sends.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "thinwire/kernels/quantize_isa.h"
#include "thinwire/kernels/quantize_testing.h"

namespace thinwire::kernels {
namespace {

// bf16 bits of a scale: of block `block` in message `message`, from random bits.
using ScaleOf = std::function<uint16_t(int64_t block, size_t message, uint64_t draw)>;

uint16_t Scale(uint64_t exponent, uint64_t draw) {
  return static_cast<uint16_t>((draw & 0x8000u) | (exponent << 7) | (draw & 0x7fu));
}

struct Messages {
  std::vector<EncodedBlocks> encoded;
  std::vector<BlockTerm> terms;

  Messages(const BlockFormat& format, size_t count, int64_t size, const ScaleOf& scale_of) {
    const CounterRandom random(count + static_cast<uint64_t>(size));
    encoded.reserve(count);
    for (size_t m = 0; m < count; ++m) {
      EncodedBlocks& message = encoded.emplace_back(format, size, m % 4);
      const MutableBlocks blocks = message.blocks();
      for (int64_t i = 0; i < format.CodeBytes(size); ++i) {
        blocks.codes[i] = static_cast<std::byte>(random.Bits(static_cast<uint64_t>(i) * 32 + m));
      }
      for (int64_t b = 0; b < format.Blocks(size); ++b) {
        const uint16_t bits =
            scale_of(b, m, random.Bits(~(static_cast<uint64_t>(b) * 32 + m)) >> 16);
        std::memcpy(blocks.scales + 2 * b, &bits, 2);
      }
      terms.push_back({blocks, {}});
    }
  }
};

// Against both steps, done by the scalar kernels.
void ExpectBothSteps(const BlockFormat& format, std::span<const BlockTerm> terms, int64_t size) {
  std::vector<float> sum(static_cast<size_t>(size));
  DequantizeSum({Isa::kScalar}, format, terms, false, sum);
  const EncodedBlocks wanted = Quantized(Isa::kScalar, format, std::span<const float>(sum), 1);
  for (const Isa isa : SupportedIsas()) {
    EncodedBlocks found(format, size, 1);
    DequantizeSumQuantize({isa}, format, terms, size, format.code, found.blocks());
    ASSERT_TRUE(found == wanted) << NameOf(isa) << ", " << terms.size() << " "
                                 << NameOf(format.code) << " messages of " << size
                                 << " in blocks of " << format.block;
  }
}

void ExpectBothStepsEverywhere(const ScaleOf& scale_of) {
  for (const CodeType code : kCodeTypes) {
    for (const int64_t block : {32, 64, 96, 128, 256, 384, 1024, 2080, 4096}) {
      for (const size_t count : {1u, 2u, 3u, 4u, 5u, 8u, 9u, 16u, 17u}) {
        const int64_t size = block * (block < 256    ? 150
                                      : block < 1024 ? 37
                                                     : 3) +
                             static_cast<int64_t>(count) * 3;
        const BlockFormat format{code, block};
        const Messages messages(format, count, size, scale_of);
        ExpectBothSteps(format, messages.terms, size);
      }
    }
  }
}

TEST(DequantizeSumQuantize, ScalesOfAnyMantissaNearEachOther) {
  ExpectBothStepsEverywhere(
      [](int64_t, size_t, uint64_t draw) { return Scale(120 + (draw >> 16) % 8, draw); });
}

// Sums are halves of few multiples of the new scale: ties, and both +m and -m in a block.
TEST(DequantizeSumQuantize, Ties) {
  ExpectBothStepsEverywhere([](int64_t block, size_t, uint64_t draw) {
    return Scale(120 + static_cast<uint64_t>(block % 3) * ((draw >> 16) % 2), draw & 0x8000u);
  });
}

TEST(DequantizeSumQuantize, ScalesFarFromEachOther) {
  ExpectBothStepsEverywhere([](int64_t block, size_t message, uint64_t draw) {
    const uint64_t spread = block % 4 == 0 ? 30 : block % 4 == 1 ? 9 : 8;
    return Scale(100 + (message == 0 ? 0 : (draw >> 16) % spread), draw);
  });
}

TEST(DequantizeSumQuantize, ScalesOfAllMagnitudesAndNone) {
  ExpectBothStepsEverywhere([](int64_t block, size_t, uint64_t draw) {
    const uint64_t low =
        std::array<uint64_t, 7>{1, 58, 62, 64, 184, 190, 245}[static_cast<size_t>(block % 7)];
    if ((draw >> 24) % 5 == 0 || block % 9 == 8) return uint16_t{0};
    return Scale(low + (draw >> 16) % 4, draw);
  });
}

TEST(DequantizeSumQuantize, ScalesThatNoBlockGives) {
  ExpectBothStepsEverywhere([](int64_t block, size_t message, uint64_t draw) {
    constexpr std::array<uint16_t, 8> kOdd{0x7fc0, 0x7f80, 0xff80, 0xffff,
                                           1,      0x80ff, 0x7e00, 0x8000};
    if (block % 3 == 0 && message == draw % 3) return kOdd[static_cast<size_t>(block) / 3 % 8];
    return Scale(120 + (draw >> 16) % 3, draw);
  });
}

TEST(DequantizeSumQuantize, OwnTermsOfEveryDType) {
  for (const CodeType code : kCodeTypes) {
    for (const DType dtype : kDTypes) {
      for (const size_t count : {1u, 2u, 3u, 4u, 5u}) {
        const BlockFormat format{code, 128};
        const int64_t size = 128 * 40 + 5;
        Messages messages(format, count, size,
                          [](int64_t, size_t, uint64_t draw) { return Scale(126, draw); });
        const BlockInputs own(dtype, size, 1, count);
        messages.terms[count / 2] = {{}, own.array};
        ExpectBothSteps(format, messages.terms, size);
      }
    }
  }
}

// The blocks that SumQuantize leaves to others.
std::vector<int64_t> Left(Isa isa, const BlockFormat& format, size_t count, int64_t blocks,
                          const ScaleOf& scale_of) {
  const int64_t size = blocks * format.block;
  const Messages messages(format, count, size, scale_of);
  EncodedBlocks out(format, size, 0);
  OtherBlocks others;
  const TermPass pass{messages.terms.data(), static_cast<int>(count), false, 0, blocks};
  EXPECT_EQ(THINWIRE_PICK(isa, SumQuantize)(format, pass, out.blocks(), others), blocks);
  return {others.indices, others.indices + others.count};
}

// Without these the tests above might compare the general way with itself.
TEST(SumQuantize, LeavesScalesThatAreFarApart) {
  for (const Isa isa : SupportedIsas()) {
    if (isa == Isa::kScalar || isa == Isa::kNeon) continue;
    for (const CodeType code : kCodeTypes) {
      const std::vector<int64_t> left =
          Left(isa, {code, 128}, 4, 300, [](int64_t block, size_t m, uint64_t draw) {
            const uint64_t highest = block % 10 == 3 ? 108 : 107;
            return Scale(m == 0 ? 100 : m == 1 ? highest : 101, draw);
          });
      ASSERT_EQ(left.size(), 30u);
      for (size_t i = 0; i < left.size(); ++i) EXPECT_EQ(left[i], 10 * static_cast<int64_t>(i) + 3);
    }
  }
}

TEST(SumQuantize, LeavesSumsThatMayRound) {
  for (const Isa isa : SupportedIsas()) {
    if (isa == Isa::kScalar || isa == Isa::kNeon) continue;
    for (const size_t count : {5u, 6u}) {
      // |M| is 128, 255 x 2^7 three times, 248 x 2^7, then 2^14: only all six are above 2^17.
      const auto scale_of = [](int64_t, size_t m, uint64_t) {
        return Scale(m == 0 ? 100 : 107, m == 0 ? 0 : m < 4 ? 0x7f : m == 4 ? 0x78 : 0);
      };
      EXPECT_EQ(Left(isa, {CodeType::kInt8, 128}, count, 2, scale_of).size(), count == 5 ? 0u : 2u);
      EXPECT_EQ(Left(isa, {CodeType::kInt4, 128}, count, 2, scale_of).size(), 0u);
    }
  }
}

}  // namespace
}  // namespace thinwire::kernels
