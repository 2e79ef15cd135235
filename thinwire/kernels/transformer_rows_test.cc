#include "thinwire/kernels/transformer_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "thinwire/base/random.h"

namespace thinwire::kernels {
namespace {

std::vector<float> Random(int64_t n, uint64_t seed) {
  std::vector<float> out(static_cast<size_t>(n));
  const CounterRandom random(seed);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(random.Normal(i));
  return out;
}

std::vector<BF16> Rounded(const std::vector<float>& in) {
  std::vector<BF16> out;
  for (const float x : in) out.push_back(ToBF16(x));
  return out;
}

Array View(std::vector<float>& v) { return std::span<float>(v); }
Array View(std::vector<BF16>& v) { return std::span<BF16>(v); }

class TransformerRowsTest : public testing::TestWithParam<Isa> {
 protected:
  ExecContext context_{GetParam()};
};

TEST_P(TransformerRowsTest, RmsNormAndGradients) {
  for (const int64_t columns : {1, 7, 16, 33, 64}) {
    const RowShape shape{3, columns};
    auto x = Random(3 * columns, 1), w = Random(columns, 2), dy = Random(3 * columns, 3);
    std::vector<float> y(x.size()), dx(x.size()), dw(w.size()), inverse(3);
    RmsNorm(context_, shape, View(x), View(w), 1e-5f, View(y), inverse);
    RmsNormGrad(context_, shape, View(x), View(w), inverse, View(dy), View(dx));
    RmsNormWeightGrad(context_, shape, View(x), inverse, View(dy), View(dw));
    std::vector<double> want_dw(w.size());
    for (size_t row = 0; row < 3; ++row) {
      const size_t at = row * static_cast<size_t>(columns);
      double squares = 0, product = 0;
      for (size_t c = 0; c < w.size(); ++c) squares += double{x[at + c]} * x[at + c];
      const double inv = 1 / std::sqrt(squares / static_cast<double>(columns) + 1e-5);
      for (size_t c = 0; c < w.size(); ++c) product += double{dy[at + c]} * w[c] * x[at + c] * inv;
      for (size_t c = 0; c < w.size(); ++c) {
        EXPECT_NEAR(y[at + c], x[at + c] * inv * w[c], 2e-6) << columns;
        const double want = inv * (double{dy[at + c]} * w[c] -
                                   x[at + c] * inv * product / static_cast<double>(columns));
        EXPECT_NEAR(dx[at + c], want, 1e-5) << columns;
        want_dw[c] += dy[at + c] * x[at + c] * inv;
      }
    }
    for (size_t c = 0; c < w.size(); ++c) EXPECT_NEAR(dw[c], want_dw[c], 1e-5) << columns;
  }
}

TEST_P(TransformerRowsTest, SwiGluAndGradients) {
  auto gate = Random(37, 4), up = Random(37, 5), dout = Random(37, 6);
  gate[3] = 200;
  gate[4] = -200;
  std::vector<float> out(37), dgate(37), dup(37);
  SwiGlu(context_, View(gate), View(up), View(out));
  SwiGluGrad(context_, View(gate), View(up), View(dout), View(dgate), View(dup));
  for (size_t i = 0; i < 37; ++i) {
    const double g = gate[i];
    const double s = 1 / (1 + std::exp(-g));
    const double tolerance = 3e-6 * (1 + std::abs(g));
    EXPECT_NEAR(out[i], g * s * up[i], tolerance) << i;
    EXPECT_NEAR(dgate[i], dout[i] * up[i] * s * (1 + g * (1 - s)), tolerance) << i;
    EXPECT_NEAR(dup[i], dout[i] * g * s, tolerance) << i;
  }
}

TEST_P(TransformerRowsTest, CausalSoftmaxAndGradient) {
  const CausalShape shape{.rows = 10, .keys = 24, .first = 17, .group = 2, .scale = 0.25f};
  auto scores = Random(240, 7), dp = Random(240, 8);
  const auto original = scores;
  CausalSoftmax(context_, shape, View(scores));
  auto ds = dp;
  CausalSoftmaxGrad(context_, shape, View(scores), View(ds));
  for (size_t row = 0; row < 10; ++row) {
    const size_t visible = 17 + row / 2 + 1;
    double sum = 0, product = 0;
    for (size_t k = 0; k < visible; ++k) sum += std::exp(0.25 * original[row * 24 + k]);
    for (size_t k = 0; k < visible; ++k) {
      product += std::exp(0.25 * original[row * 24 + k]) / sum * dp[row * 24 + k];
    }
    for (size_t k = 0; k < 24; ++k) {
      const size_t i = row * 24 + k;
      const double p = k < visible ? std::exp(0.25 * original[i]) / sum : 0;
      EXPECT_NEAR(scores[i], p, 1e-6);
      EXPECT_NEAR(ds[i], p * (dp[i] - product) * 0.25, 1e-6);
    }
  }
}

TEST_P(TransformerRowsTest, CrossEntropyAndGradient) {
  auto logits = Random(3 * 21, 9);
  for (float& x : logits) x *= 10;
  const auto original = logits;
  const std::vector<int64_t> targets = {0, 20, 7};
  std::vector<float> losses(3);
  CrossEntropy(context_, {3, 21}, View(logits), targets, 0, losses);
  EXPECT_EQ(logits, original);
  CrossEntropy(context_, {3, 21}, View(logits), targets, 0.5f, losses);
  for (size_t row = 0; row < 3; ++row) {
    double sum = 0;
    for (size_t c = 0; c < 21; ++c) sum += std::exp(double{original[row * 21 + c]});
    const auto target = static_cast<size_t>(targets[row]);
    EXPECT_NEAR(losses[row], std::log(sum) - original[row * 21 + target], 2e-5);
    for (size_t c = 0; c < 21; ++c) {
      const double p = std::exp(double{original[row * 21 + c]}) / sum;
      EXPECT_NEAR(logits[row * 21 + c], 0.5 * (p - (c == target)), 1e-6);
    }
  }
}

TEST_P(TransformerRowsTest, NotANumberIsNeverLaundered) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const size_t at : {size_t{2}, size_t{19}}) {
    auto x = Random(20, 10);
    x[at] = kNan;
    std::vector<float> losses(1), out(20), up(20, 1);
    const std::vector<int64_t> targets = {1};
    SwiGlu(context_, View(x), View(up), View(out));
    EXPECT_TRUE(std::isnan(out[at]));
    auto scores = x;
    CausalSoftmax(context_, {.rows = 1, .keys = 20, .first = 19}, View(scores));
    EXPECT_TRUE(std::isnan(scores[0]));
    CrossEntropy(context_, {1, 20}, View(x), targets, 0, losses);
    EXPECT_TRUE(std::isnan(losses[0]));
  }
}

TEST_P(TransformerRowsTest, HeadsTurnForthAndBack) {
  const HeadShape shape{.batch = 2, .tokens = 3, .kv_heads = 2, .group = 2, .dim = 6};
  auto in = Random(shape.numel(), 11);
  std::vector<float> cosine(9), sine(9), heads(in.size()), back(in.size());
  for (size_t i = 0; i < 9; ++i) {
    cosine[i] = std::cos(static_cast<float>(i));
    sine[i] = std::sin(static_cast<float>(i));
  }
  ToHeads(context_, shape, View(in), cosine.data(), sine.data(), View(heads));
  FromHeads(context_, shape, View(heads), cosine.data(), sine.data(), View(back));
  for (size_t i = 0; i < in.size(); ++i) EXPECT_NEAR(back[i], in[i], 1e-6);
  // Batch 1, token 2, kv head 1, group 0, element 1: angle 2 * 3 + 1.
  const float* from = &in[((((1 * 3 + 2) * 2 + 1) * 2) + 0) * 6];
  const float got = heads[((((1 * 2 + 1) * 3 + 2) * 2) + 0) * 6 + 1];
  EXPECT_NEAR(got, from[1] * std::cos(7.0f) - from[4] * std::sin(7.0f), 1e-6);
}

TEST_P(TransformerRowsTest, EveryInstructionSetGivesTheSameBits) {
  const ExecContext scalar{Isa::kScalar};
  auto gate = Rounded(Random(53, 12)), up = Rounded(Random(53, 13));
  std::vector<BF16> out(53), want(53);
  SwiGlu(context_, View(gate), View(up), View(out));
  SwiGlu(scalar, View(gate), View(up), View(want));
  for (size_t i = 0; i < 53; ++i) EXPECT_EQ(out[i].bits, want[i].bits);
  auto scores = Rounded(Random(4 * 53, 14)), reference = scores;
  const CausalShape shape{.rows = 4, .keys = 53, .first = 30, .group = 1, .scale = 0.3f};
  CausalSoftmax(context_, shape, View(scores));
  CausalSoftmax(scalar, shape, View(reference));
  for (size_t i = 0; i < scores.size(); ++i) EXPECT_EQ(scores[i].bits, reference[i].bits);
}

INSTANTIATE_TEST_SUITE_P(Isa, TransformerRowsTest, testing::ValuesIn(SupportedIsas()),
                         [](const auto& isa) { return std::string(NameOf(isa.param)); });

}  // namespace
}  // namespace thinwire::kernels
