#include "thinwire/infer/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "thinwire/base/error.h"

namespace thinwire::infer {
namespace {

const std::vector<float> kLogits = {1.0f, 3.0f, 2.0f, -1.0f, 2.5f};

SamplingOptions Plain() {
  SamplingOptions options;
  options.temperature = 1;
  options.top_k = 0;
  options.top_p = 1;
  options.min_p = 0;
  return options;
}

// How often each token comes in `draws` draws.
std::map<int32_t, int> Count(const SamplingOptions& options, int draws,
                             std::span<const int32_t> recent = {}) {
  Sampler sampler({}, static_cast<int64_t>(kLogits.size()), options);
  std::map<int32_t, int> counts;
  for (int i = 0; i < draws; ++i) {
    std::vector<float> logits = kLogits;
    ++counts[sampler.Sample(logits, recent, static_cast<uint64_t>(i)).token];
  }
  return counts;
}

double Probability(size_t token, double temperature = 1) {
  double sum = 0;
  for (const float logit : kLogits) sum += std::exp(logit / temperature);
  return std::exp(kLogits[token] / temperature) / sum;
}

TEST(Sampler, DrawsAsOftenAsTheSoftmaxSays) {
  for (const double temperature : {0.5, 1.0, 2.0}) {
    SamplingOptions options = Plain();
    options.temperature = temperature;
    const auto counts = Count(options, 20000);
    for (size_t i = 0; i < kLogits.size(); ++i) {
      const auto found = counts.find(static_cast<int32_t>(i));
      const double share = found == counts.end() ? 0 : found->second / 20000.0;
      EXPECT_NEAR(share, Probability(i, temperature), 0.015) << i << " at " << temperature;
    }
  }
}

TEST(Sampler, ADrawIsAFunctionOfSeedAndNumber) {
  SamplingOptions options = Plain();
  EXPECT_EQ(Count(options, 100), Count(options, 100));
  Sampler a({}, 5, options);
  options.seed = 1;
  Sampler b({}, 5, options);
  int differ = 0;
  for (uint64_t i = 0; i < 50; ++i) {
    std::vector<float> x = kLogits, y = kLogits;
    differ += a.Sample(x, {}, i).token != b.Sample(y, {}, i).token;
  }
  EXPECT_GT(differ, 5);
}

TEST(Sampler, LimitsLeaveOutTheUnlikely) {
  SamplingOptions top_k = Plain();
  top_k.top_k = 2;
  EXPECT_EQ(Count(top_k, 2000).size(), 2u);
  EXPECT_TRUE(Count(top_k, 2000).contains(1) && Count(top_k, 2000).contains(4));
  // Shares 0.47, 0.29, 0.17 ...: two reach 0.7.
  SamplingOptions top_p = Plain();
  top_p.top_p = 0.7;
  EXPECT_EQ(Count(top_p, 2000).size(), 2u);
  // e^-0.5 = 0.61, e^-1 = 0.37 of the first.
  SamplingOptions min_p = Plain();
  min_p.min_p = 0.3;
  EXPECT_EQ(Count(min_p, 2000).size(), 3u);
  SamplingOptions one = Plain();
  one.top_k = 1;
  EXPECT_EQ(Count(one, 50), (std::map<int32_t, int>{{1, 50}}));
}

TEST(Sampler, GreedyTakesTheLargestAndTellsItsProbability) {
  SamplingOptions options = Plain();
  options.temperature = 0;
  Sampler sampler({}, 5, options);
  std::vector<float> logits = kLogits;
  const Sampled sampled = sampler.Sample(logits, {}, 0);
  EXPECT_EQ(sampled.token, 1);
  EXPECT_NEAR(sampled.log_probability, std::log(Probability(1)), 1e-5);
}

TEST(Sampler, TellsTheLikeliestOfTheLogitsAsTheyCameIn) {
  SamplingOptions options = Plain();
  options.likeliest = 3;
  options.logit_bias = {{1, -100.0f}};
  Sampler sampler({}, 5, options);
  std::vector<float> logits = kLogits;
  const std::vector<uint64_t> allowed = {0b01001};
  const Sampled sampled = sampler.Sample(logits, {}, 0, allowed);
  ASSERT_EQ(sampled.likeliest.size(), 3u);
  const std::vector<int32_t> expected = {1, 4, 2};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sampled.likeliest[i].token, expected[i]);
    EXPECT_NEAR(sampled.likeliest[i].log_probability,
                std::log(Probability(static_cast<size_t>(expected[i]))), 1e-5);
  }
  options.likeliest = 50;  // more than there are
  logits = {1, 3, 1, 3, 2};
  Sampler all({}, 5, options);
  const Sampled tied = all.Sample(logits, {}, 0);
  std::vector<int32_t> order;
  for (const TokenProbability& each : tied.likeliest) order.push_back(each.token);
  EXPECT_EQ(order, (std::vector<int32_t>{1, 3, 4, 0, 2}));
}

// Neither bias, penalty nor mask changes the probability that is told.
TEST(Sampler, PenaltyBiasAndMaskMoveTheChoice) {
  SamplingOptions options = Plain();
  options.temperature = 0;
  options.repetition_penalty = 2;
  options.repetition_window = 2;
  const std::vector<int32_t> recent = {4, 3, 1, 1};
  Sampler penalized({}, 5, options);
  std::vector<float> logits = kLogits;
  const Sampled sampled = penalized.Sample(logits, recent, 0);
  EXPECT_EQ(sampled.token, 4);  // 3 / 2 < 2.5; 4 is out of the window
  EXPECT_NEAR(sampled.log_probability, std::log(Probability(4)), 1e-5);

  options.repetition_penalty = 1;
  options.logit_bias = {{3, 10.0f}, {1, -std::numeric_limits<float>::infinity()}};
  Sampler biased({}, 5, options);
  logits = kLogits;
  EXPECT_EQ(biased.Sample(logits, {}, 0).token, 3);

  Sampler masked({}, 5, Plain());
  const std::vector<uint64_t> allowed = {0b01001};
  for (uint64_t i = 0; i < 100; ++i) {
    logits = kLogits;
    const int32_t token = masked.Sample(logits, {}, i, allowed).token;
    EXPECT_TRUE(token == 0 || token == 3) << token;
  }
}

TEST(Sampler, OptionsOutOfRangeAreRefusedByName) {
  const auto refuses = [](auto change, std::string_view name) {
    SamplingOptions options;
    change(options);
    try {
      CheckSampling(options, 5);
    } catch (const UsageError& error) {
      return std::string_view(error.what()).starts_with(name);
    }
    return false;
  };
  EXPECT_TRUE(refuses([](auto& o) { o.temperature = -1; }, "temperature"));
  EXPECT_TRUE(refuses([](auto& o) { o.temperature = NAN; }, "temperature"));
  EXPECT_TRUE(refuses([](auto& o) { o.top_k = -1; }, "top_k"));
  EXPECT_TRUE(refuses([](auto& o) { o.top_p = 0; }, "top_p"));
  EXPECT_TRUE(refuses([](auto& o) { o.top_p = 1.1; }, "top_p"));
  EXPECT_TRUE(refuses([](auto& o) { o.min_p = NAN; }, "min_p"));
  EXPECT_TRUE(refuses([](auto& o) { o.repetition_penalty = 0; }, "repetition_penalty"));
  EXPECT_TRUE(refuses([](auto& o) { o.repetition_window = -1; }, "repetition_window"));
  EXPECT_TRUE(refuses([](auto& o) { o.logit_bias = {{5, 1.0f}}; }, "logit_bias"));
  EXPECT_TRUE(refuses([](auto& o) { o.logit_bias = {{-1, 1.0f}}; }, "logit_bias"));
  EXPECT_TRUE(refuses([](auto& o) { o.likeliest = -1; }, "likeliest"));
  EXPECT_TRUE(refuses([](auto& o) { o.likeliest = 101; }, "likeliest"));
  EXPECT_NO_THROW(CheckSampling(SamplingOptions{}, 5));
}

}  // namespace
}  // namespace thinwire::infer
