#include "thinwire/codec/block.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "thinwire/base/random.h"
#include "thinwire/codec/by_name.h"

namespace thinwire::codec {
namespace {

using kernels::Clip;
using kernels::CodeType;
using kernels::ScaleChoice;

std::vector<std::shared_ptr<const Codec>> Codecs(int64_t block) {
  std::vector<std::shared_ptr<const Codec>> codecs{
      BlockInt8(block), BlockInt4(block), BlockInt4(block, "block", ScaleChoice::kSearched)};
  for (const std::string_view name : {"int4/*/max0.95", "int3/*", "ternary/*", "ternary/*/rms1.22",
                                      "rot32+int8/*", "rot32+int3/*", "rot32+ternary/*"}) {
    std::string full(name);
    codecs.push_back(ByName(full.replace(full.find('*'), 1, std::to_string(block)), "codec"));
  }
  if (block % 128 == 0) codecs.push_back(ByName("rot128+int4/128", "codec"));
  return codecs;
}

std::vector<std::byte> Encoded(const Codec& codec, ConstArray values, Runs runs) {
  std::vector<std::byte> out(static_cast<size_t>(codec.EncodedBytes(runs)));
  codec.Encode({}, values, runs, out);
  return out;
}

std::vector<float> Decoded(const Codec& codec, std::span<const std::byte> message, Runs runs,
                           int64_t size) {
  std::vector<float> out(static_cast<size_t>(size));
  codec.Decode({}, message, runs, std::span<float>(out));
  return out;
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

std::vector<float> Normals(int64_t size, uint64_t key) {
  std::vector<float> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(CounterRandom(key).Normal(i));
  }
  return values;
}

// Three runs: 33 elements in two blocks, none, and 5 elements. By the format: block 0 has -4 as its
// extreme (int8: 4/127 up to bf16 is 0x3d02, int4: 0.5 is 0x3f00), block 1 holds a zero, run 2 has
// +1 as extreme, so int4's scale is -1/8 (0xbe00).
std::vector<float> GoldenValues() {
  std::vector<float> values(38, 0.0f);
  for (size_t i = 0; i < 32; ++i) values[i] = static_cast<float>(i % 8) * 0.5f;
  values[3] = -4.0f;
  values[33] = 1.0f;
  values[34] = -1.0f;
  values[35] = 0.3f;
  return values;
}
constexpr std::array<int64_t, 3> kGoldenRuns{33, 0, 5};

TEST(Block, GoldenBytes) {
  const std::vector<float> values = GoldenValues();
  const std::span<const float> in(values);
  EXPECT_EQ(Hex(Encoded(*BlockInt8(32), in, kGoldenRuns)),
            "001020823f4f5f6e0010202f3f4f5f6e0010202f3f4f5f6e0010202f3f4f5f6e00"
            "7e82260000"
            "023d0000023c");
  EXPECT_EQ(Hex(Encoded(*BlockInt4(32), in, kGoldenRuns)),
            "10825476103254761032547610325476"
            "00"
            "780e00"
            "003f000000be");
  // int3: block 0 has the scale 1 and codes like 0 0 1 -4 2 2 3 3, run 2 the scale -1/4 and the
  // codes -4 3 -1 0 0. Ternary: 1 where there is more than 2 in block 0, so digits 1 2 2 2 1 in the
  // first of 7 bytes, and 2 0 1 1 1 in the one of run 2.
  const auto usual = [](CodeType code) { return Block({{code, 32}, Clip{}}); };
  EXPECT_EQ(Hex(Encoded(*usual(CodeType::kInt3), in, kGoldenRuns)),
            "40286d40246d40246d40246d00"
            "dc01"
            "803f000080be");
  EXPECT_EQ(Hex(Encoded(*usual(CodeType::kTernary), in, kGoldenRuns)),
            "a98e842c80d5f2"
            "b9"
            "80400000803f");
  const std::vector<float> bad{1.0f, std::numeric_limits<float>::infinity()};
  EXPECT_EQ(Hex(Encoded(*BlockInt8(32), std::span<const float>(bad), std::array{int64_t{2}})),
            "0000c07f");
  EXPECT_EQ(Hex(Encoded(*BlockInt4(32), std::span<const float>(bad), std::array{int64_t{2}})),
            "00c07f");
}

TEST(Block, NamesAndSizes) {
  EXPECT_EQ(BlockInt8(128)->name(), "int8/128");
  EXPECT_EQ(BlockInt4(64)->name(), "int4/64");
  EXPECT_EQ(BlockInt4(4096, "x", ScaleChoice::kSearched)->name(), "int4/4096/searched");
  const std::array<int64_t, 4> runs{1, 0, 128, 129};
  EXPECT_EQ(BlockInt8(128)->EncodedBytes(runs), 258 + 2 * 4);
  EXPECT_EQ(BlockInt4(128)->EncodedBytes(runs), 1 + 64 + 65 + 2 * 4);
  EXPECT_EQ(ByName("int3/128", "codec")->EncodedBytes(runs), 1 + 48 + 49 + 2 * 4);
  EXPECT_EQ(ByName("ternary/128", "codec")->EncodedBytes(runs), 1 + 26 + 26 + 2 * 4);
  EXPECT_EQ(ByName("rot32+ternary/32", "codec")->EncodedBytes(runs), 1 + 26 + 26 + 2 * 10);
  EXPECT_EQ(BlockInt4(32)->EncodedBytes({}), 0);
  EXPECT_THROW(BlockInt8(32)->EncodedBytes(std::array{INT64_MAX, int64_t{1}}), UsageError);
  EXPECT_THROW(BlockInt8(32)->EncodedBytes(std::array{INT64_MAX}), UsageError);
}

TEST(Block, RefusesBlocksThatMakeNoSense) {
  for (const int64_t block : {int64_t{0}, int64_t{-32}, int64_t{100}, int64_t{4128}, INT64_MAX}) {
    for (const bool int8 : {true, false}) {
      try {
        int8 ? BlockInt8(block, "parallel.block") : BlockInt4(block, "parallel.block");
        ADD_FAILURE() << block;
      } catch (const UsageError& error) {
        EXPECT_EQ(error.what(), "parallel.block is " + std::to_string(block) +
                                    ": choose a multiple of 32 from 32 to 4096");
      }
    }
  }
}

// Each run alone gives the same codes and scales as the run among others.
TEST(Block, BlocksRestartAtRuns) {
  const std::array<int64_t, 5> runs{70, 1, 0, 128, 33};
  const std::vector<float> values = Normals(232, 1);
  for (const auto& codec : Codecs(64)) {
    const std::vector<float> together =
        Decoded(*codec, Encoded(*codec, std::span<const float>(values), runs), runs, 232);
    std::vector<float> apart;
    size_t at = 0;
    for (const int64_t run : runs) {
      const auto part = std::span<const float>(values).subspan(at, static_cast<size_t>(run));
      const auto one =
          Decoded(*codec, Encoded(*codec, part, std::span(&run, 1)), std::span(&run, 1), run);
      apart.insert(apart.end(), one.begin(), one.end());
      at += part.size();
    }
    EXPECT_EQ(together, apart) << codec->name();
  }
}

TEST(Block, EveryElementTypeInAndOut) {
  const std::array<int64_t, 2> runs{100, 37};
  const std::vector<float> values = Normals(137, 2);
  for (const auto& codec : Codecs(32)) {
    for (const DType in_dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      std::vector<std::byte> in(137 * static_cast<size_t>(SizeOf(in_dtype)));
      std::vector<float> rounded(137), wanted(137);
      Raw(in_dtype).Encode({}, std::span<const float>(values), runs, in);
      Raw(in_dtype).Decode({}, in, runs, std::span<float>(rounded));
      const auto message = Encoded(*codec, ConstArray(in.data(), in_dtype, 137), runs);
      EXPECT_EQ(Hex(message), Hex(Encoded(*codec, std::span<const float>(rounded), runs)));
      for (const DType dtype : {DType::kBF16, DType::kF16}) {
        std::vector<std::byte> found(137 * 2), expected(137 * 2);
        codec->Decode({}, message, runs, Array(found.data(), dtype, 137));
        const std::vector<float> exact = Decoded(*codec, message, runs, 137);
        Raw(dtype).Encode({}, std::span<const float>(exact), runs, expected);
        EXPECT_EQ(Hex(found), Hex(expected)) << codec->name() << " " << NameOf(dtype);
      }
    }
  }
}

// This rank's own elements stand anywhere among the messages; the count passes the size of a group.
TEST(Block, DecodeSumAddsInOrder) {
  constexpr int64_t kSize = 133;
  const std::array<int64_t, 3> runs{100, 0, 33};
  for (const auto& codec : Codecs(32)) {
    for (const size_t count : {0u, 1u, 2u, 5u, 16u, 17u, 40u}) {
      std::vector<std::vector<float>> values;
      std::vector<std::vector<std::byte>> messages;
      for (size_t t = 0; t < count; ++t) {
        values.push_back(Normals(kSize, t));
        messages.push_back(Encoded(*codec, std::span<const float>(values[t]), runs));
      }
      std::vector<Term> terms;
      for (size_t t = 0; t < count; ++t) {
        const bool own = t % 3 == 1;
        terms.push_back(own ? Term{{}, std::span<const float>(values[t])} : Term{messages[t], {}});
        if (!own) values[t] = Decoded(*codec, messages[t], runs, kSize);
      }
      for (const bool accumulate : {false, true}) {
        std::vector<float> out = Normals(kSize, 999);
        std::vector<float> wanted = out;
        if (!accumulate) wanted.assign(wanted.size(), -0.0f);  // -0 + x is x, also for x = -0
        if (!accumulate && count == 0) wanted.assign(wanted.size(), 0.0f);
        for (const auto& term : values) {
          for (size_t i = 0; i < wanted.size(); ++i) wanted[i] += term[i];
        }
        codec->DecodeSum({}, terms, runs, accumulate, out);
        EXPECT_EQ(out, wanted) << codec->name() << " " << count << " terms";
      }
    }
  }
}

TEST(Block, AWrongMessageSizeIsThePeersError) {
  const std::array<int64_t, 2> runs{40, 5};
  std::vector<float> out(45, 7.0f);
  const std::vector<float> own(45, 1.0f);
  for (const auto& codec : Codecs(32)) {
    const size_t right = static_cast<size_t>(codec->EncodedBytes(runs));
    for (const size_t bytes : {size_t{0}, size_t{1}, right - 1, right + 1, 2 * right}) {
      const std::vector<std::byte> message(bytes);
      EXPECT_THROW(codec->Decode({}, message, runs, std::span<float>(out)), PeerError);
      const std::array<Term, 2> terms{Term{{}, std::span<const float>(own)}, Term{message, {}}};
      EXPECT_THROW(codec->DecodeSum({}, terms, runs, true, out), PeerError);
    }
  }
  EXPECT_EQ(out, std::vector<float>(45, 7.0f));
}

// Messages end where their memory ends, so that the address sanitizer sees any byte too far.
TEST(Block, AnyBytesDecode) {
  for (uint64_t round = 0; round < 200; ++round) {
    const CounterRandom random(round);
    const int64_t block = 32 * (1 + static_cast<int64_t>(random.Bits(0) % 4));
    std::vector<int64_t> runs;
    int64_t size = 0;
    for (uint64_t r = 1; r <= random.Bits(1) % 4; ++r) {
      runs.push_back(static_cast<int64_t>(random.Bits(10 + r) % 150));
      size += runs.back();
    }
    for (const auto& codec : Codecs(block)) {
      std::vector<std::byte> message(static_cast<size_t>(codec->EncodedBytes(runs)));
      for (size_t i = 0; i < message.size(); ++i) {
        message[i] = static_cast<std::byte>(random.Bits(1000 + i));
      }
      std::vector<float> sum(static_cast<size_t>(size));
      const std::array<Term, 2> terms{Term{message, {}}, Term{message, {}}};
      for (const Isa isa : SupportedIsas()) {
        std::vector<std::byte> halves(2 * static_cast<size_t>(size));
        codec->Decode({isa}, message, runs, std::span<float>(sum));
        codec->Decode({isa}, message, runs, Array(halves.data(), DType::kF16, size));
        codec->Decode({isa}, message, runs, Array(halves.data(), DType::kBF16, size));
        codec->DecodeSum({isa}, terms, runs, true, sum);
      }
    }
  }
}

TEST(Block, ARotationIsUndoneWithItsOwnSeedOnly) {
  const std::array<int64_t, 1> runs{300};
  const std::vector<float> values = Normals(300, 3);
  const kernels::BlockFormat format{CodeType::kInt8, 128};
  const auto codec = [&](uint64_t seed) {
    return Block({format, ScaleChoice::kExtreme, kernels::Rotation{128, seed}});
  };
  const auto message = Encoded(*codec(1), std::span<const float>(values), runs);
  const std::vector<float> same = Decoded(*codec(1), message, runs, 300);
  const std::vector<float> other = Decoded(*codec(2), message, runs, 300);
  double error = 0, stray = 0;
  for (size_t i = 0; i < 300; ++i) {
    error += std::pow(static_cast<double>(same[i] - values[i]), 2) / 300;
    stray += std::pow(static_cast<double>(other[i] - values[i]), 2) / 300;
  }
  EXPECT_LT(error, 1e-4);
  EXPECT_GT(stray, 0.5);
}

// What a sender gets for rows of zeros between others, one run each.
TEST(Block, RowsOfZerosStayZero) {
  const std::array<int64_t, 3> rows{100, 100, 100};
  std::vector<float> values = Normals(300, 4);
  std::fill_n(values.begin() + 100, 100, 0.0f);
  for (const auto& codec : Codecs(128)) {
    const auto found =
        Decoded(*codec, Encoded(*codec, std::span<const float>(values), rows), rows, 300);
    for (size_t i = 100; i < 200; ++i) EXPECT_EQ(found[i], 0) << codec->name();
  }
}

TEST(Block, EmptyPieces) {
  for (const auto& codec : Codecs(128)) {
    codec->Encode({}, ConstArray(nullptr, DType::kF32, 0), {}, {});
    codec->Decode({}, {}, {}, Array(nullptr, DType::kBF16, 0));
    const Term empty;
    codec->DecodeSum({}, std::span(&empty, 1), {}, false, {});
  }
}

}  // namespace
}  // namespace thinwire::codec
