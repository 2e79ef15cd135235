#include "thinwire/blocks/product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/blocks/product_testing.h"

namespace thinwire::blocks {
namespace {

struct Tail {
  int64_t rows;
  int64_t tokens;
  int64_t columns;
};

// Each kind of matrix, tile and last group at least once, all pairs of the first two.
std::vector<Tail> Tails(WeightType type) {
  std::vector<Tail> tails;
  const bool super_blocks = BlockElements(type) == 256;
  for (int64_t tokens = 1; tokens <= 25; ++tokens) {
    tails.push_back({tokens % 3 == 0   ? 17
                     : tokens % 3 == 1 ? 15
                                       : 1,
                     tokens,
                     super_blocks      ? 256
                     : tokens % 2 == 0 ? 32
                                       : 96});
  }
  for (const int64_t columns : {64, 576, 1536}) {
    if (!super_blocks) tails.push_back({33, 13, columns});
  }
  if (super_blocks) tails.push_back({33, 13, 1536});
  return tails;
}

TEST(Product, HoldsItsBoundForEveryTypeIsaAndTail) {
  for (const WeightType type : AllWeightTypes()) {
    for (const Tail& tail : Tails(type)) {
      const TestMatrix matrix(type, tail.rows, tail.columns, 7);
      const TestRows x(tail.tokens, tail.columns, 8);
      const Exact exact = ExactProduct(matrix, x);
      for (const Isa isa : SupportedIsas()) {
        const std::vector<float> out = ProductOf(isa, matrix, x);
        for (size_t i = 0; i < out.size(); ++i) {
          ASSERT_LE(std::abs(static_cast<double>(out[i]) - exact.products[i]), exact.bounds[i])
              << NameOf(type) << " " << NameOf(isa) << " token " << i / size_t(tail.rows) << " of "
              << tail.tokens << ", row " << i % size_t(tail.rows) << " of " << tail.rows << ", "
              << tail.columns << " columns";
        }
      }
    }
  }
}

TEST(Product, InstructionSetsDifferInRoundingOnly) {
  for (const WeightType type : AllWeightTypes()) {
    const TestMatrix matrix(type, 17, 768, 11);
    for (const int64_t tokens : {1, 13}) {
      const TestRows x(tokens, 768, 12);
      const std::vector<float> wanted = ProductOf(Isa::kScalar, matrix, x);
      for (const Isa isa : SupportedIsas()) {
        const std::vector<float> out = ProductOf(isa, matrix, x);
        for (size_t i = 0; i < out.size(); ++i) {
          const size_t row = i % 17;
          float magnitude = 0;  // activations are below 0.6
          for (size_t k = 0; k < 768; ++k) {
            magnitude += std::abs(matrix.values[row * 768 + k]) * 0.6f;
          }
          ASSERT_NEAR(out[i], wanted[i], magnitude * 0x1p-19f) << NameOf(type) << NameOf(isa) << i;
        }
      }
    }
  }
}

// Two matrices over the same activations, by ranges of groups that cut through both.
TEST(Product, RangesOfSeveralMatricesAddUp) {
  for (const Isa isa : SupportedIsas()) {
    for (const int64_t tokens : {1, 4, 14}) {
      const TestMatrix first(WeightType::kQ4_1, 40, 64, 1), second(WeightType::kQ8_0, 33, 64, 2);
      const TestRows x(tokens, 64, 3);
      const AlignedBuffer memory(Activations::Bytes(ActivationForm::kInt8, tokens, 64));
      const AlignedBuffer scratch(
          std::max(ScratchBytes(first.type, 64), ScratchBytes(second.type, 64)));
      const Activations activations(ActivationForm::kInt8, tokens, 64, memory.bytes());
      activations.Set({isa}, x.x.data(), 64);
      constexpr int64_t kStride = 90;
      std::vector<float> bias(33, 2.0f), out(static_cast<size_t>(tokens * kStride), 1.0f);
      const Product products[] = {{.weights = first.packed, .out = out.data(), .stride = kStride},
                                  {.weights = second.packed,
                                   .out = out.data() + 45,
                                   .stride = kStride,
                                   .bias = bias.data(),
                                   .add = true}};
      ASSERT_EQ(Groups(products), 6);
      for (const auto& [begin, end] : {std::pair{5, 6}, {0, 2}, {2, 5}}) {
        Multiply({isa}, products, activations, begin, end, scratch.bytes());
      }
      const std::vector<float> a = ProductOf(isa, first, x), b = ProductOf(isa, second, x);
      for (int64_t t = 0; t < tokens; ++t) {
        for (int64_t row = 0; row < kStride; ++row) {
          float wanted = 1;  // rows of neither stay
          if (row < 40) wanted = a[static_cast<size_t>(t * 40 + row)];
          if (row >= 45 && row < 78) wanted = b[static_cast<size_t>(t * 33 + row - 45)] + 2 + 1;
          ASSERT_NEAR(out[static_cast<size_t>(t * kStride + row)], wanted, 1e-5) << t << " " << row;
        }
      }
    }
  }
}

TEST(Product, NanInActivationsReachesEveryRowOfItsToken) {
  for (const WeightType type : {WeightType::kQ4_1, WeightType::kQ6_K, WeightType::kF16}) {
    const TestMatrix matrix(type, 16, 256, 1);
    TestRows x(2, 256, 3);
    x.x[5] = std::nanf("");
    for (const Isa isa : SupportedIsas()) {
      const std::vector<float> out = ProductOf(isa, matrix, x);
      for (size_t row = 0; row < 16; ++row) {
        EXPECT_TRUE(std::isnan(out[row])) << NameOf(type);
        EXPECT_FALSE(std::isnan(out[16 + row])) << NameOf(type);
      }
    }
  }
}

}  // namespace
}  // namespace thinwire::blocks
