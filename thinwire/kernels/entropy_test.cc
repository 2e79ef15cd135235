#include "thinwire/kernels/entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "thinwire/base/random.h"
#include "thinwire/kernels/low_bits.h"
#include "thinwire/kernels/quantize.h"

namespace thinwire::kernels {
namespace {

using Bytes = std::vector<std::byte>;

struct Packed {
  const char* name;
  SymbolModel model;
  CodeType code;
  Clip clip;  // not of int8
};

const std::array<Packed, 4> kPacked{
    Packed{"int8", SymbolModel::kInt8, CodeType::kInt8, {}},
    {"int4", SymbolModel::kInt4, CodeType::kInt4, kInt4Clip},
    {"int3", SymbolModel::kInt3, CodeType::kInt3, kInt3Clip},
    {"ternary", SymbolModel::kTernary, CodeType::kTernary, kTernaryClip}};

// Codes of normally distributed elements in blocks of 128.
Bytes NormalCodes(const Packed& packed, int64_t elements) {
  const BlockFormat format{packed.code, 128};
  std::vector<float> values(static_cast<size_t>(elements));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(CounterRandom(5).Normal(i));
  }
  Bytes codes(static_cast<size_t>(format.CodeBytes(elements)));
  Bytes scales(static_cast<size_t>(2 * format.Blocks(elements)));
  const MutableBlocks out{codes.data(), scales.data()};
  const std::span<const float> in(values);
  if (packed.code == CodeType::kInt8) {
    Quantize({}, format, ScaleChoice::kExtreme, in, out);
  } else {
    QuantizeClipped({}, format, packed.clip, in, out);
  }
  return codes;
}

Bytes Compressed(Isa isa, SymbolModel model, const Bytes& in) {
  Bytes out(static_cast<size_t>(MostCompressedBytes(std::ssize(in))), std::byte{0xee});
  const int64_t size = Compress({isa}, model, in, out);
  out.resize(static_cast<size_t>(size));
  return out;
}

// Through every instruction set both ways, with bytes behind the code; the code.
Bytes ExpectRoundTrip(SymbolModel model, const Bytes& in) {
  const Bytes code = Compressed(Isa::kScalar, model, in);
  EXPECT_LE(std::ssize(code), MostCompressedBytes(std::ssize(in)));
  for (const Isa isa : SupportedIsas()) {
    EXPECT_EQ(Compressed(isa, model, in), code) << NameOf(isa) << " " << in.size();
    Bytes more = code, out(in.size());
    more.resize(code.size() + 3, std::byte{0x55});
    EXPECT_EQ(Expand({isa}, model, more, out), std::ssize(code)) << NameOf(isa) << " " << in.size();
    EXPECT_EQ(out, in) << NameOf(isa) << " " << in.size();
  }
  return code;
}

double EntropyOf(const Bytes& bytes) {
  std::array<double, 256> counts{};
  for (const std::byte b : bytes) counts[std::to_integer<size_t>(b)] += 1;
  double bits = 0;
  for (const double count : counts) {
    if (count > 0) bits -= count * std::log2(count / static_cast<double>(bytes.size()));
  }
  return bits;
}

TEST(Entropy, RoundTripsEveryLength) {
  for (const Packed& packed : kPacked) {
    const Bytes codes = NormalCodes(packed, 12000);
    for (size_t size = 0; size <= 1200; ++size) {
      ExpectRoundTrip(packed.model,
                      Bytes(codes.begin(), codes.begin() + static_cast<ptrdiff_t>(size)));
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
    const Bytes code = ExpectRoundTrip(packed.model, codes);
    EXPECT_LT(code.size(), codes.size()) << packed.name;
  }
}

TEST(Entropy, RoundTripsAroundSegments) {
  for (const Packed& packed : kPacked) {
    const Bytes codes = NormalCodes(packed, 600'000);
    for (const int64_t size :
         {kSegmentBytes - 1, kSegmentBytes, kSegmentBytes + 1, 2 * kSegmentBytes + 1777}) {
      const Bytes in(codes.begin(), codes.begin() + std::min(size, std::ssize(codes)));
      ExpectRoundTrip(packed.model, in);
    }
  }
}

// Of int3, where six bits are a symbol, below the entropy of its bytes.
TEST(Entropy, OfNormalCodesComesNearTheirEntropy) {
  for (const Packed& packed : kPacked) {
    const int64_t elements = 1'000'000;
    const Bytes codes = NormalCodes(packed, elements);
    const double bits =
        8.0 * static_cast<double>(Compressed(BestIsa(), packed.model, codes).size());
    EXPECT_LT(bits, 1.01 * EntropyOf(codes)) << packed.name;
    RecordProperty(packed.name, std::to_string(bits / static_cast<double>(elements)));
  }
}

TEST(Entropy, WhatDoesNotGainIsStored) {
  for (const Packed& packed : kPacked) {
    Bytes noise(2 * kSegmentBytes + 5);
    for (size_t i = 0; i < noise.size(); ++i)
      noise[i] = static_cast<std::byte>(CounterRandom(3).Bits(i));
    const Bytes code = ExpectRoundTrip(packed.model, noise);
    EXPECT_EQ(code.size(), noise.size() + 12);
  }
}

// Rows that nothing touched cost hardly anything.
TEST(Entropy, ZerosCostLittle) {
  for (const Packed& packed : kPacked) {
    Bytes codes = NormalCodes(packed, 400'000);
    const std::byte zero{packed.code == CodeType::kTernary ? uint8_t{128} : uint8_t{0}};
    for (size_t i = 0; i < codes.size(); ++i) {
      if (i / 600 % 8 != 0) codes[i] = zero;
    }
    const Bytes code = ExpectRoundTrip(packed.model, codes);
    EXPECT_LT(static_cast<double>(code.size()), 0.25 * static_cast<double>(codes.size()))
        << packed.name;
    const Bytes zeros(codes.size(), zero);
    EXPECT_LT(static_cast<double>(ExpectRoundTrip(packed.model, zeros).size()),
              0.1 * static_cast<double>(codes.size()))
        << packed.name;
  }
}

// Any bytes: an error or some output, and never a step outside of the arrays (which the sanitizers
// watch: each is as long as it says).
TEST(Entropy, DamagedCodesAreNoticedOrDecode) {
  for (const Packed& packed : kPacked) {
    Bytes in = NormalCodes(packed, 24000);
    in.resize(4000);
    const Bytes code = Compressed(BestIsa(), packed.model, in);
    ASSERT_LT(code.size(), in.size());
    int noticed = 0;
    constexpr int kTrials = 3000;
    for (uint64_t trial = 0; trial < kTrials; ++trial) {
      const CounterRandom random(1000 + trial);
      Bytes damaged = code;
      const size_t flips = 1 + random.Bits(0) % 4;
      for (size_t f = 0; f < flips; ++f) {
        damaged[random.Bits(2 * f + 1) % damaged.size()] ^=
            static_cast<std::byte>(1 + random.Bits(2 * f + 2) % 255);
      }
      if (trial % 3 == 0) damaged.resize(random.Bits(99) % damaged.size());
      int64_t first = -2;
      for (const Isa isa : SupportedIsas()) {
        Bytes exact(damaged.begin(), damaged.end()), out(in.size());
        const int64_t used = Expand({isa}, packed.model, exact, out);
        ASSERT_TRUE(used == -1 || (used >= 4 && used <= std::ssize(damaged)));
        if (first == -2) first = used;
        ASSERT_EQ(used, first) << NameOf(isa);
      }
      noticed += first == -1;
    }
    EXPECT_GT(noticed, kTrials * 9 / 10) << packed.name;
  }
}

TEST(Entropy, NoiseIsNoCode) {
  for (int m = 0; m < kSymbolModels; ++m) {
    for (uint64_t trial = 0; trial < 2000; ++trial) {
      const CounterRandom random(trial);
      Bytes noise(random.Bits(0) % 700), out(random.Bits(1) % 1500);
      for (size_t i = 0; i < noise.size(); ++i)
        noise[i] = static_cast<std::byte>(random.Bits(i + 2));
      // A size that fits, a table that is there.
      if (noise.size() >= 4) {
        noise[0] = static_cast<std::byte>(noise.size() - 4);
        noise[1] = static_cast<std::byte>((noise.size() - 4) >> 8);
        noise[2] = std::byte{0};
        noise[3] &= std::byte{31};
      }
      for (const Isa isa : SupportedIsas()) {
        const int64_t used = Expand({isa}, static_cast<SymbolModel>(m), noise, out);
        ASSERT_TRUE(used >= -1 && used <= std::ssize(noise));
      }
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

// 3 bytes are stored. 1998 zeros and two other bytes in int4 take the table of the narrowest normal
// distribution with the most zeros, a word and the states.
TEST(Entropy, GoldenBytes) {
  EXPECT_EQ(
      Hex(Compressed(BestIsa(), SymbolModel::kInt4, {std::byte{1}, std::byte{2}, std::byte{3}})),
      "03000000010203");
  Bytes bytes(2000);
  bytes[70] = std::byte{0x5a};
  bytes[1999] = std::byte{0x0f};
  const Bytes code = ExpectRoundTrip(SymbolModel::kInt4, bytes);
  EXPECT_EQ(
      Hex(code),
      "8200004be516"  // 130 bytes, table 74; the word
      "96a72a0096a72a0096a72a0096a72a0096a72a0096a72a00a783020096a72a0096a72a0096a72a0096a72a00"
      "96a72a0096a72a0096a72a0096a72a00fa5e6b4fa8b52700a8b52700a8b52700a8b52700a8b52700a8b52700"
      "a8b52700a8b52700a8b52700a8b52700a8b52700a8b52700a8b52700a8b52700a8b52700a8b52700");
}

}  // namespace
}  // namespace thinwire::kernels
