#include "thinwire/kernels/decoder_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "thinwire/base/random.h"

namespace thinwire::kernels {
namespace {

std::vector<float> Random(uint64_t seed, int64_t size) {
  std::vector<float> v(static_cast<size_t>(size));
  for (size_t i = 0; i < v.size(); ++i) {
    v[i] = 6 * static_cast<float>(CounterRandom(seed).Uniform(i)) - 2;
  }
  return v;
}

constexpr int64_t kColumns[] = {1, 3, 16, 17, 64, 80, 576, 1000};

TEST(DecoderRows, NormsEqualTheirDefinitions) {
  for (const Isa isa : SupportedIsas()) {
    for (const int64_t columns : kColumns) {
      const auto x = Random(1, 2 * columns), weight = Random(2, columns), bias = Random(3, columns);
      std::vector<float> root(x.size()), layer(x.size());
      RootMeanSquareNorm({isa}, {2, columns}, x.data(), weight.data(), 1e-5f, root.data());
      LayerNorm({isa}, {2, columns}, x.data(), weight.data(), bias.data(), 1e-5f, layer.data());
      for (int64_t row = 0; row < 2; ++row) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < columns; ++i) {
          const double v = x[static_cast<size_t>(row * columns + i)];
          sum += v;
          squares += v * v;
        }
        const double n = static_cast<double>(columns), mean = sum / n;
        double variance = 0;
        for (int64_t i = 0; i < columns; ++i) {
          const double v = x[static_cast<size_t>(row * columns + i)];
          variance += (v - mean) * (v - mean) / n;
        }
        for (int64_t i = 0; i < columns; ++i) {
          const size_t at = static_cast<size_t>(row * columns + i), k = static_cast<size_t>(i);
          EXPECT_NEAR(root[at], x[at] / std::sqrt(squares / n + 1e-5) * weight[k], 1e-5);
          EXPECT_NEAR(layer[at], (x[at] - mean) / std::sqrt(variance + 1e-5) * weight[k] + bias[k],
                      2e-5)
              << NameOf(isa) << " " << columns;
        }
      }
    }
  }
}

double Expected(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kRelu:
      return std::max(0.0, x);
    case Activation::kGelu:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kGeluErf:
      return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
  }
  return NAN;
}

TEST(DecoderRows, ActivationsEqualTheirDefinitions) {
  for (const Isa isa : SupportedIsas()) {
    for (const Activation activation :
         {Activation::kSilu, Activation::kGelu, Activation::kRelu, Activation::kGeluErf}) {
      for (const int64_t size : kColumns) {
        const auto x = Random(4, size), factor = Random(5, size);
        auto alone = x, times = x, sum = x;
        Activate({isa}, activation, alone);
        ActivateTimes({isa}, activation, times, factor);
        AddTo({isa}, factor, sum);
        for (size_t i = 0; i < x.size(); ++i) {
          EXPECT_NEAR(alone[i], Expected(activation, x[i]), 2e-6);
          EXPECT_NEAR(times[i], Expected(activation, x[i]) * factor[i], 1e-5);
          EXPECT_EQ(sum[i], x[i] + factor[i]);
        }
      }
      std::vector<float> far = {-1e30f, 1e30f, -200, 200};
      Activate({isa}, activation, far);
      EXPECT_EQ(far[1], 1e30f);
      EXPECT_EQ(far[3], 200);
      EXPECT_NEAR(far[2], 0, 1e-30);
    }
  }
}

TEST(DecoderRows, LargestAndLogSumExpEqualTheirDefinitions) {
  for (const Isa isa : SupportedIsas()) {
    for (const int64_t size : kColumns) {
      auto x = Random(8, size);
      double sum = 0;
      for (const float v : x) sum += std::exp(static_cast<double>(v));
      EXPECT_NEAR(LogSumExp({isa}, x), std::log(sum), 1e-5);
      const auto largest = static_cast<int64_t>(std::ranges::max_element(x) - x.begin());
      EXPECT_EQ(IndexOfLargest({isa}, x), largest);
      x.assign(x.size(), -1e30f);  // all equal: the first; -inf where there is a larger one
      EXPECT_EQ(IndexOfLargest({isa}, x), 0);
      x.back() = 3;
      x.front() = x.size() > 1 ? -INFINITY : 3;
      EXPECT_EQ(IndexOfLargest({isa}, x), size - 1);
    }
  }
}

TEST(DecoderRows, RotationTurnsEachPairAndLeavesTheRest) {
  for (const Isa isa : SupportedIsas()) {
    for (const RotaryPairs pairs : {RotaryPairs::kHalves, RotaryPairs::kNeighbours}) {
      for (const auto& [dim, turned] : {std::pair<int64_t, int64_t>{64, 64}, {80, 32}, {6, 6}}) {
        const RotaryShape shape = {.heads = 3, .dim = dim, .turned = turned, .pairs = pairs};
        const auto x = Random(6, 3 * dim), angles = Random(7, turned / 2);
        std::vector<float> cosines, sines;
        for (const float angle : angles) {
          cosines.push_back(std::cos(angle));
          sines.push_back(std::sin(angle));
        }
        auto y = x;
        Rotate({isa}, shape, cosines.data(), sines.data(), y.data());
        for (int64_t i = 0; i < 3 * dim; ++i) {
          const int64_t k = i % dim, half = turned / 2;
          const bool halves = pairs == RotaryPairs::kHalves;
          if (k >= turned) {
            EXPECT_EQ(y[static_cast<size_t>(i)], x[static_cast<size_t>(i)]);
            continue;
          }
          const bool second = halves ? k >= half : k % 2 == 1;
          const int64_t other = halves ? (second ? i - half : i + half) : (second ? i - 1 : i + 1);
          const size_t pair = static_cast<size_t>(halves ? k % half : k / 2);
          const float sign = second ? 1.0f : -1.0f;
          EXPECT_NEAR(y[static_cast<size_t>(i)],
                      x[static_cast<size_t>(i)] * cosines[pair] +
                          sign * x[static_cast<size_t>(other)] * sines[pair],
                      1e-5);
        }
      }
    }
  }
}

}  // namespace
}  // namespace thinwire::kernels
