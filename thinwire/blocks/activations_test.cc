#include "thinwire/blocks/activations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/base/random.h"

namespace thinwire::blocks {
namespace {

std::vector<std::byte> Set(Isa isa, ActivationForm form, const std::vector<float>& rows,
                           int64_t tokens) {
  const int64_t columns = std::ssize(rows) / tokens;
  const AlignedBuffer memory(Activations::Bytes(form, tokens, columns));
  const Activations activations(form, tokens, columns, memory.bytes());
  activations.Set({isa}, rows.data(), columns);
  return {memory.bytes().begin(), memory.bytes().end()};
}

std::vector<float> Rows(int64_t size) {
  const CounterRandom random(4);
  std::vector<float> rows(static_cast<size_t>(size));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<float>(random.Uniform(i) - 0.5) * static_cast<float>(i / 32 % 5);
  }
  return rows;
}

template <typename T>
T At(const std::vector<std::byte>& bytes, int64_t place) {
  T value;
  std::memcpy(&value, bytes.data() + place, sizeof(value));
  return value;
}

TEST(Activations, CodesAreWithinTheirBoundAndSumsAreTheirs) {
  constexpr int64_t kTokens = 4, kColumns = 96;  // one tile, as wide as it is
  const std::vector<float> rows = Rows(kTokens * kColumns);
  const auto bytes = Set(BestIsa(), ActivationForm::kInt8, rows, kTokens);
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t block = 0; block < kColumns / 32; ++block) {
      const int64_t at = block * kBlockBytesPerToken * kTokens + 4 * t;
      const float scale = At<float>(bytes, at + kScalePlace * kTokens);
      int32_t sums[2] = {};
      for (int64_t k = 0; k < 32; ++k) {
        const int8_t code = At<int8_t>(bytes, at + k / 4 * 4 * kTokens + k % 4);
        const double x = rows[static_cast<size_t>(t * kColumns + block * 32 + k)];
        EXPECT_LE(std::abs(code * static_cast<double>(scale) - x),
                  (0.5 + 0x1p-15) * static_cast<double>(scale));
        sums[k / 16] += code;
      }
      EXPECT_EQ(At<int32_t>(bytes, at + kSumPlace * kTokens), -128 * (sums[0] + sums[1]));
      EXPECT_EQ(At<int32_t>(bytes, at + kFirstSumPlace * kTokens), -128 * sums[0]);
      EXPECT_EQ(At<int32_t>(bytes, at + kLastSumPlace * kTokens), -128 * sums[1]);
    }
  }
}

TEST(Activations, HaveTheSameBitsOnEveryInstructionSet) {
  for (const ActivationForm form : {ActivationForm::kInt8, ActivationForm::kFloat}) {
    for (int64_t tokens = 1; tokens <= 25; ++tokens) {
      std::vector<float> rows = Rows(tokens * 64);
      rows[0] = std::numeric_limits<float>::infinity();
      rows[40] = 1e-38f;
      const auto wanted = Set(Isa::kScalar, form, rows, tokens);
      for (const Isa isa : SupportedIsas()) {
        EXPECT_EQ(Set(isa, form, rows, tokens), wanted) << NameOf(isa) << " " << tokens;
      }
    }
  }
}

TEST(Activations, NanAndInfMakeTheirBlockNan) {
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(), std::nanf("")}) {
    std::vector<float> rows(64, 1.0f);
    rows[5] = bad;
    const auto bytes = Set(BestIsa(), ActivationForm::kInt8, rows, 1);
    EXPECT_TRUE(std::isnan(At<float>(bytes, kScalePlace)));
    EXPECT_EQ(At<int32_t>(bytes, kSumPlace), 0);
    EXPECT_EQ(At<float>(bytes, kBlockBytesPerToken + kScalePlace), 1.0f / 127);
  }
}

TEST(Activations, TinyNumbersAreZero) {
  const auto bytes = Set(BestIsa(), ActivationForm::kInt8, std::vector<float>(32, 1e-31f), 1);
  EXPECT_EQ(At<float>(bytes, kScalePlace), 0.0f);
  EXPECT_EQ(At<int8_t>(bytes, 0), 0);
}

}  // namespace
}  // namespace thinwire::blocks
