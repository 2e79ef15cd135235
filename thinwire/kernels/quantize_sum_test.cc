#include <gtest/gtest.h>

#include <vector>

#include "thinwire/kernels/quantize_testing.h"
#include "thinwire/kernels/sum.h"

namespace thinwire::kernels {
namespace {

// `count` terms; those for which is_own says so are arrays as they are.
struct Terms {
  std::vector<BlockInputs> inputs;
  std::vector<EncodedBlocks> encoded;
  std::vector<std::vector<float>> values;  // of each term, decoded
  std::vector<BlockTerm> terms;
  std::vector<ConstArray> arrays;  // the same summands, for SumInOrder

  template <typename IsOwn>
  Terms(const BlockFormat& format, size_t count, int64_t size, const IsOwn& is_own) {
    inputs.reserve(count);
    encoded.reserve(count);
    values.reserve(count);
    for (size_t t = 0; t < count; ++t) {
      const uint64_t key = t + static_cast<uint64_t>(size);
      inputs.emplace_back(kDTypes[key % 3], size, static_cast<int64_t>(t % 3), key);
      encoded.push_back(Quantized(Isa::kScalar, format, inputs[t].array, t % 4));
      const ConstBlocks blocks = encoded[t].blocks();
      values.emplace_back(static_cast<size_t>(size));
      Dequantize({Isa::kScalar}, format, blocks, std::span<float>(values[t]));
      const bool own = is_own(t);
      terms.push_back(own ? BlockTerm{{}, inputs[t].array} : BlockTerm{blocks, {}});
      arrays.push_back(own ? inputs[t].array : std::span<const float>(values[t]));
    }
  }
};

template <typename IsOwn>
void ExpectSequential(const BlockFormat& format, size_t count, int64_t size, const IsOwn& is_own) {
  const Terms terms(format, count, size, is_own);
  for (const bool accumulate : {false, true}) {
    std::vector<float> wanted = Floats(size, 9);
    const std::vector<float> before = wanted;
    SumInOrder({Isa::kScalar}, terms.arrays, accumulate, wanted);
    for (const Isa isa : SupportedIsas()) {
      std::vector<float> found(static_cast<size_t>(size) + 34, 0.5f);
      std::copy(before.begin(), before.end(), found.begin() + 1);
      DequantizeSum({isa}, format, terms.terms, accumulate,
                    std::span(found).subspan(1, before.size()));
      EXPECT_EQ(found.front(), 0.5f);
      EXPECT_TRUE(std::all_of(found.end() - 33, found.end(), [](float x) { return x == 0.5f; }));
      ASSERT_TRUE(SameBits(std::span<const float>(found).subspan(1, before.size()),
                           std::span<const float>(wanted)))
          << NameOf(isa) << " " << NameOf(format.code) << " " << count << " terms of " << size
          << (accumulate ? ", accumulated" : "");
    }
  }
}

TEST(DequantizeSum, MatchesTheSeparateStepsForEveryTail) {
  for (const CodeType code : kCodeTypes) {
    for (int64_t size = 0; size <= 200; ++size) {
      const BlockFormat format{code, 32 * (1 + size % 3)};
      const size_t count = static_cast<size_t>(size) % 6;
      ExpectSequential(format, count, size, [](size_t) { return false; });
      ExpectSequential(format, count, size, [&](size_t t) { return t == count / 2; });
    }
  }
}

TEST(DequantizeSum, TheOwnTermAnywhereAmongMany) {
  for (const CodeType code : kCodeTypes) {
    const BlockFormat format{code, 64};
    for (const size_t count : {1u, 2u, 3u, 15u, 16u, 17u, 33u, 70u}) {
      for (const size_t own : {size_t{0}, size_t{1}, count / 2, count - 1}) {
        ExpectSequential(format, count, 210, [&](size_t t) { return t == own; });
      }
    }
    ExpectSequential(format, 5, 5000, [](size_t t) { return t % 2 == 0; });
    ExpectSequential(format, 3, 100, [](size_t) { return true; });
  }
}

TEST(DequantizeSum, OrderMatters) {
  const BlockFormat format{CodeType::kInt8, 32};
  std::vector<EncodedBlocks> encoded;
  std::vector<BlockTerm> terms;
  for (const float x : {127e8f, -127e8f, 1.0f}) {
    encoded.push_back(Quantized(Isa::kScalar, format, std::span<const float>(&x, 1)));
  }
  const auto sum = [&](const std::array<size_t, 3>& order) {
    terms.clear();
    for (const size_t t : order) terms.push_back({std::as_const(encoded[t]).blocks(), {}});
    float out = 0;
    DequantizeSum({}, format, terms, false, std::span(&out, 1));
    return out;
  };
  EXPECT_NEAR(sum({0, 1, 2}), 1.0f, 0.01f);
  EXPECT_EQ(sum({0, 2, 1}), 0.0f);
}

TEST(DequantizeSum, RefusesAnOwnTermOfAnotherSize) {
  const std::vector<float> own(3);
  const BlockTerm term{{}, std::span<const float>(own)};
  std::vector<float> out(4);
  EXPECT_THROW(DequantizeSum({}, {}, std::span(&term, 1), false, out), InternalError);
}

TEST(DequantizeSumQuantize, MatchesTheSeparateSteps) {
  for (const CodeType code : kCodeTypes) {
    for (const CodeType out_code : kCodeTypes) {
      for (const int64_t block : {32, 96, 128, 4096}) {
        for (const int64_t size : {0, 1, 31, 33, 200, 4095, 4097, 9001}) {
          const size_t count = 1 + static_cast<size_t>(size) % 20;
          const BlockFormat format{code, block}, out_format{out_code, block};
          const Terms terms(format, count, size, [](size_t t) { return t == 1; });
          std::vector<float> sum(static_cast<size_t>(size));
          SumInOrder({Isa::kScalar}, terms.arrays, false, sum);
          const EncodedBlocks wanted =
              Quantized(Isa::kScalar, out_format, std::span<const float>(sum), 1);
          for (const Isa isa : SupportedIsas()) {
            EncodedBlocks found(out_format, size, 1);
            DequantizeSumQuantize({isa}, format, terms.terms, size, out_code, found.blocks());
            EXPECT_TRUE(found == wanted) << NameOf(isa) << " " << block << " " << size;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace thinwire::kernels
