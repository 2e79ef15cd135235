#include "thinwire/kernels/quantize.h"

#include <gtest/gtest.h>

#include <vector>

#include "thinwire/kernels/convert.h"
#include "thinwire/kernels/quantize_testing.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace thinwire::kernels {
namespace {

void ExpectReference(const BlockFormat& format, DType dtype, int64_t size, uint64_t key) {
  const size_t offset = key % 5;
  const BlockInputs in(dtype, size, static_cast<int64_t>(key % 3), key);
  const EncodedBlocks wanted = ReferenceQuantized(format, in.array, offset);
  for (const Isa isa : SupportedIsas()) {
    const EncodedBlocks found = Quantized(isa, format, in.array, offset);
    ASSERT_TRUE(SameBits(found.scales, wanted.scales))
        << NameOf(isa) << " " << NameOf(format.code) << " " << NameOf(dtype) << " " << size;
    ASSERT_TRUE(SameBits(found.codes, wanted.codes))
        << NameOf(isa) << " " << NameOf(format.code) << " " << NameOf(dtype) << " " << size;
  }
}

TEST(Quantize, MatchesTheWrittenFormatForEveryTailAndAddress) {
  for (const CodeType code : kCodeTypes) {
    for (const DType dtype : kDTypes) {
      for (int64_t size = 0; size <= 300; ++size) {
        ExpectReference({code, 32 * (1 + size % 4)}, dtype, size, static_cast<uint64_t>(size));
      }
    }
  }
}

TEST(Quantize, MatchesTheWrittenFormatForEveryBlockSize) {
  for (const CodeType code : kCodeTypes) {
    for (int64_t block = 32; block <= kLargestBlock; block += 32) {
      for (uint64_t kind = 0; kind < 8; ++kind) {
        ExpectReference({code, block}, kDTypes[kind % 3], 32, kind);  // each kind alone in a block
      }
      ExpectReference({code, block}, DType::kF32, 2 * block + block / 2 + 1, 8);
    }
  }
}

TEST(Quantize, ManyBlocks) {
  for (const CodeType code : kCodeTypes) {
    for (const DType dtype : kDTypes) ExpectReference({code, 32}, dtype, 40'001, 5);
  }
}

// A value that a code cannot be off by more than; see the header.
double Bound(CodeType type, double x, double scale) {
  const double half = (0.5 + 0x1p-16) * std::abs(scale);
  if (type == CodeType::kInt8 || x / scale <= 7.5) return half;
  return std::abs(x - 7 * scale) * (1 + 0x1p-20);
}

TEST(Quantize, ErrorStaysWithinTheBound) {
  for (const CodeType type : kCodeTypes) {
    const BlockFormat format{type, 64};
    for (uint64_t key = 0; key < 50; ++key) {
      const BlockInputs in(DType::kF32, 64 * 8, 0, key);
      const EncodedBlocks encoded = Quantized(BestIsa(), format, in.array);
      for (int64_t i = 0; i < in.array.size; ++i) {
        const double scale = static_cast<double>(ToFloat(BF16{encoded.scale(i / 64)}));
        if (std::isnan(scale)) continue;
        double most = 0;
        for (int64_t j = i / 64 * 64; j < i / 64 * 64 + 64; ++j) {
          most = std::max(most, std::abs(static_cast<double>(ElementAt(in.array, j))));
        }
        const double divisor = type == CodeType::kInt8 ? 127 : 8;
        ASSERT_LE(std::abs(scale), std::max(most / divisor * (1 + 0x1p-7), 0x1p-125));
        const double x = static_cast<double>(ElementAt(in.array, i));
        const double value = CodeAt(type, encoded.codes.data(), i) * scale;
        ASSERT_LE(std::abs(x - value), Bound(type, x, scale)) << NameOf(type) << " " << x;
        const bool largest = (encoded.scale(i / 64) & 0x7fff) == kLargestInt4Scale;
        ASSERT_LE(std::abs(x - value), std::abs(scale) * (largest ? 1.04 : 1));
        if (type == CodeType::kInt4 && most > 0x1p-122 && std::abs(x) == most && x / scale < 0) {
          ASSERT_EQ(CodeAt(type, encoded.codes.data(), i), -8);
        }
      }
    }
  }
}

TEST(Quantize, NothingThatIsNotFiniteGetsLost) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const CodeType type : kCodeTypes) {
    const BlockFormat format{type, 32};
    for (const float bad : {inf, -inf, std::nanf(""), -std::nanf("1")}) {
      for (size_t at = 32; at < 64; ++at) {
        std::vector<float> x(70, -1.0f);
        x[at] = bad;
        for (const Isa isa : SupportedIsas()) {
          const EncodedBlocks encoded = Quantized(isa, format, std::span<const float>(x));
          EXPECT_EQ(encoded.scale(1), 0x7fc0);
          for (const DType dtype : kDTypes) {
            std::vector<std::byte> bytes(70 * static_cast<size_t>(SizeOf(dtype)));
            const Array out(bytes.data(), dtype, 70);
            Dequantize({isa}, format, encoded.blocks(), out);
            for (int64_t i = 0; i < 70; ++i) {
              EXPECT_EQ(std::isnan(ElementAt(out, i)), i >= 32 && i < 64);
            }
          }
        }
      }
    }
  }
}

// Any codes, any scale bits.
struct RandomBlocks {
  EncodedBlocks blocks;

  RandomBlocks(const BlockFormat& format, int64_t size, size_t offset, uint64_t key)
      : blocks(format, size, offset) {
    const CounterRandom random(key);
    uint64_t at = 0;
    for (auto* bytes : {&blocks.codes, &blocks.scales}) {
      for (std::byte& b : *bytes) b = static_cast<std::byte>(random.Bits(at++));
    }
  }
};

std::vector<std::byte> ReferenceValues(const BlockFormat& format, const EncodedBlocks& in,
                                       DType dtype, int64_t size) {
  std::vector<float> values(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    const uint16_t bits = in.scale(i / format.block);
    const uint32_t magnitude = bits & 0x7fffu;
    const uint32_t most = format.code == CodeType::kInt8 ? 0x7c01u : 0x7dffu;
    const bool known = magnitude == 0 || (magnitude >= 0x100 && magnitude <= most);
    const float scale = ToFloat(BF16{known ? bits : uint16_t{0x7fc0}});
    values[static_cast<size_t>(i)] =
        WithoutPayload(static_cast<float>(CodeAt(format.code, in.blocks().codes, i)) * scale);
  }
  std::vector<std::byte> out(static_cast<size_t>(size * SizeOf(dtype)));
  Convert({Isa::kScalar}, std::span<const float>(values), Array(out.data(), dtype, size));
  return out;
}

TEST(Dequantize, MatchesTheWrittenFormatForAnyBytes) {
  for (const CodeType code : kCodeTypes) {
    for (int64_t size = 0; size <= 300; ++size) {
      const BlockFormat format{code, 32 * (1 + size % 4)};
      const RandomBlocks in(format, size, static_cast<size_t>(size % 3), 1);
      for (const DType dtype : kDTypes) {
        const auto wanted = ReferenceValues(format, in.blocks, dtype, size);
        for (const Isa isa : SupportedIsas()) {
          const size_t bytes = wanted.size();
          std::vector<std::byte> out(bytes + 64 + 1, std::byte{0xa5});
          Dequantize({isa}, format, std::as_const(in.blocks).blocks(),
                     Array(out.data() + 1, dtype, size));
          EXPECT_TRUE(std::all_of(out.begin() + 1 + static_cast<ptrdiff_t>(bytes), out.end(),
                                  [](std::byte b) { return b == std::byte{0xa5}; }));
          ASSERT_TRUE(SameBits(std::span<const std::byte>(out).subspan(1, bytes),
                               std::span<const std::byte>(wanted)))
              << NameOf(isa) << " " << NameOf(code) << " " << NameOf(dtype) << " " << size;
        }
      }
    }
  }
}

TEST(Dequantize, EveryScale) {
  constexpr int64_t kSize = 65536 * 32;
  for (const CodeType code : kCodeTypes) {
    const BlockFormat format{code, 32};
    RandomBlocks in(format, kSize, 0, 2);
    for (int64_t b = 0; b < 65536; ++b) {
      const uint16_t bits = static_cast<uint16_t>(b);
      std::memcpy(in.blocks.blocks().scales + 2 * b, &bits, 2);
    }
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const auto wanted = ReferenceValues(format, in.blocks, dtype, kSize);
      for (const Isa isa : SupportedIsas()) {
        std::vector<std::byte> found(wanted.size());
        Dequantize({isa}, format, std::as_const(in.blocks).blocks(),
                   Array(found.data(), dtype, kSize));
        EXPECT_TRUE(SameBits(found, wanted)) << NameOf(isa) << " " << NameOf(code);
      }
    }
  }
}

#if defined(__x86_64__)
TEST(Quantize, AModeThatFlushesSubnormalsChangesNothing) {
  for (const CodeType code : kCodeTypes) {
    const BlockFormat format{code, 32};
    const BlockInputs in(DType::kF32, 1000, 0, 0);
    for (const Isa isa : SupportedIsas()) {
      const EncodedBlocks wanted = Quantized(isa, format, in.array);
      std::vector<float> values(1000), flushed(1000);
      Dequantize({isa}, format, wanted.blocks(), std::span<float>(values));
      const unsigned mode = _mm_getcsr();
      _mm_setcsr(mode | 0x8040u);
      const EncodedBlocks found = Quantized(isa, format, in.array);
      Dequantize({isa}, format, wanted.blocks(), std::span<float>(flushed));
      _mm_setcsr(mode);
      EXPECT_TRUE(found == wanted) << NameOf(isa);
      EXPECT_TRUE(SameBits(flushed, values)) << NameOf(isa);
    }
  }
}
#endif

double SquaredError(const BlockFormat& format, ConstArray in, const EncodedBlocks& encoded) {
  std::vector<float> values(static_cast<size_t>(in.size));
  Dequantize({}, format, encoded.blocks(), std::span<float>(values));
  double sum = 0;
  for (int64_t i = 0; i < in.size; ++i) {
    const double error = static_cast<double>(values[static_cast<size_t>(i)] - ElementAt(in, i));
    sum += error * error;
  }
  return sum;
}

TEST(Quantize, SearchedScalesNeverGiveALargerError) {
  for (const CodeType code : kCodeTypes) {
    for (const int64_t block : {32, 64, 1024}) {
      const BlockFormat format{code, block};
      double plain_sum = 0, searched_sum = 0;
      for (uint64_t key = 0; key < 20; ++key) {
        std::vector<float> x(1024 + 17);
        for (size_t i = 0; i < x.size(); ++i) {
          x[i] = static_cast<float>(CounterRandom(key).Normal(i));
        }
        const ConstArray in = std::span<const float>(x);
        const double plain = SquaredError(format, in, Quantized(Isa::kScalar, format, in));
        const auto searched = Quantized(Isa::kScalar, format, in, 0, ScaleChoice::kSearched);
        const double least = SquaredError(format, in, searched);
        EXPECT_LE(least, plain * (1 + 1e-6));
        plain_sum += plain;
        searched_sum += least;
      }
      EXPECT_LE(searched_sum, (code == CodeType::kInt4 ? 0.95 : 1) * plain_sum) << block;
    }
  }
}

TEST(Quantize, SearchIsTheSameOnEveryInstructionSet) {
  for (const CodeType code : kCodeTypes) {
    for (const DType dtype : kDTypes) {
      for (int64_t size = 0; size <= 1000; size += 37) {
        const BlockFormat format{code, 32 * (1 + size % 5)};
        const BlockInputs in(dtype, size, size % 3, static_cast<uint64_t>(size));
        const auto wanted = Quantized(Isa::kScalar, format, in.array, 1, ScaleChoice::kSearched);
        for (const Isa isa : SupportedIsas()) {
          EXPECT_TRUE(Quantized(isa, format, in.array, 1, ScaleChoice::kSearched) == wanted)
              << NameOf(isa) << " " << NameOf(code) << " " << size;
        }
      }
    }
  }
}

TEST(Quantize, RefusesBlocksThatMakeNoSense) {
  const std::vector<float> x(64);
  EncodedBlocks out({CodeType::kInt8, 32}, 64, 0);
  for (const int64_t block : {int64_t{0}, int64_t{-32}, int64_t{33}, int64_t{4128}}) {
    EXPECT_THROW(Quantize({}, {CodeType::kInt8, block}, ScaleChoice::kExtreme,
                          std::span<const float>(x), out.blocks()),
                 InternalError);
  }
}

}  // namespace
}  // namespace thinwire::kernels
