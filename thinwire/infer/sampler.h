// The next token from a row of logits.
//
// In this order: logit bias, repetition penalty (Keskar et al., "CTRL", 2019: a positive logit of a
// token seen lately is divided by the penalty, a negative one multiplied), mask, temperature,
// top-k, top-p (Holtzman et al., 2020), min-p (Nguyen et al., 2024), one draw. Temperature 0 takes
// the largest instead of the last five.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "thinwire/base/context.h"

namespace thinwire::infer {

struct SamplingOptions {
  double temperature = 0.8;         // 0: the most likely token
  int64_t top_k = 40;               // 0: all
  double top_p = 0.95;              // 1: all
  double min_p = 0.05;              // of the most likely one's probability; 0: all
  double repetition_penalty = 1.0;  // 1: none
  int64_t repetition_window = 64;   // so many last tokens count
  uint64_t seed = 0;
  std::vector<std::pair<int32_t, float>> logit_bias;  // token, what is added
  int64_t likeliest = 0;  // tokens that are told with each that is sampled, at most kMostLikeliest
};

constexpr int64_t kMostLikeliest = 100;

// Throws UsageError naming the option that is out of range.
void CheckSampling(const SamplingOptions& options, int64_t vocabulary);

struct TokenProbability {
  int32_t token = 0;
  float log_probability = 0;
};

struct Sampled {
  int32_t token = 0;
  float log_probability = 0;  // of the logits as they came in
  // Of the same, the likeliest first; as many as asked for. Holds until the next draw.
  std::span<const TokenProbability> likeliest = {};
};

// Holds its scratch; allocates nothing after it is made. Draw number i of one seed is the same on
// every machine for the same logits.
class Sampler {
 public:
  Sampler(const ExecContext& context, int64_t vocabulary, SamplingOptions options);

  // `logits` is overwritten. `recent` are the tokens so far, the latest last; `draw` is the number
  // of this draw in its sequence. Where `allowed` is not empty, bit t % 64 of word t / 64 says
  // whether token t may come; at least one must.
  Sampled Sample(std::span<float> logits, std::span<const int32_t> recent, uint64_t draw,
                 std::span<const uint64_t> allowed = {});

 private:
  struct Candidate {
    float logit;  // later its probability
    int32_t token;
  };

  void Penalize(std::span<float> logits, std::span<const int32_t> recent);
  int32_t Draw(std::span<const float> logits, uint64_t draw);
  void FindLikeliest(std::span<const float> logits, float log_sum);

  const ExecContext context_;
  const SamplingOptions options_;
  std::vector<Candidate> candidates_;
  std::vector<float> original_;  // logits before bias and penalty, where there are any
  std::vector<TokenProbability> likeliest_;
};

}  // namespace thinwire::infer
