#include "thinwire/infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/kernels/decoder_rows.h"

namespace thinwire::infer {
namespace {

void Require(bool right, std::string_view option, double found, std::string_view wanted) {
  if (!right) throw UsageError(StrCat(option, ": ", found, "; ", wanted, " is needed"));
}

void Mask(std::span<const uint64_t> allowed, std::span<float> logits) {
  for (size_t begin = 0; begin < logits.size(); begin += 64) {
    const uint64_t word = allowed[begin / 64];
    if (word == ~uint64_t{0}) continue;
    const size_t end = std::min(begin + 64, logits.size());
    for (size_t i = begin; i < end; ++i) {
      if ((word >> (i - begin) & 1) == 0) logits[i] = -std::numeric_limits<float>::infinity();
    }
  }
}

}  // namespace

void CheckSampling(const SamplingOptions& o, int64_t vocabulary) {
  Require(o.temperature >= 0 && o.temperature <= 1e6, "temperature", o.temperature, "0 to 1e6");
  Require(o.top_k >= 0, "top_k", static_cast<double>(o.top_k), "0 (all) or more");
  Require(o.top_p > 0 && o.top_p <= 1, "top_p", o.top_p, "more than 0, at most 1");
  Require(o.min_p >= 0 && o.min_p <= 1, "min_p", o.min_p, "0 to 1");
  Require(o.repetition_penalty > 0 && o.repetition_penalty <= 1e6, "repetition_penalty",
          o.repetition_penalty, "more than 0, at most 1e6");
  Require(o.repetition_window >= 0, "repetition_window", static_cast<double>(o.repetition_window),
          "0 or more");
  Require(o.likeliest >= 0 && o.likeliest <= kMostLikeliest, "likeliest",
          static_cast<double>(o.likeliest), StrCat("0 to ", kMostLikeliest));
  for (const auto& [token, bias] : o.logit_bias) {
    Require(token >= 0 && token < vocabulary, "logit_bias: token", token,
            StrCat("0 to ", vocabulary - 1));
    Require(!std::isnan(bias), "logit_bias", bias, "a number");
  }
}

Sampler::Sampler(const ExecContext& context, int64_t vocabulary, SamplingOptions options)
    : context_(context), options_(std::move(options)) {
  CheckSampling(options_, vocabulary);
  candidates_.resize(static_cast<size_t>(vocabulary));
  const bool changes = !options_.logit_bias.empty() || options_.repetition_penalty != 1;
  if (changes) original_.resize(candidates_.size());
  likeliest_.resize(static_cast<size_t>(std::min(options_.likeliest, vocabulary)));
}

void Sampler::Penalize(std::span<float> logits, std::span<const int32_t> recent) {
  for (const auto& [token, bias] : options_.logit_bias) logits[static_cast<size_t>(token)] += bias;
  if (options_.repetition_penalty == 1) return;
  const auto window = static_cast<size_t>(options_.repetition_window);
  if (recent.size() > window) recent = recent.last(window);
  const auto penalty = static_cast<float>(options_.repetition_penalty);
  for (size_t i = 0; i < recent.size(); ++i) {
    // Once, however often it was seen.
    if (std::ranges::find(recent.first(i), recent[i]) !=
        recent.begin() + static_cast<ptrdiff_t>(i)) {
      continue;
    }
    float& logit = logits[static_cast<size_t>(recent[i])];
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

// By insertion: of a vocabulary few tokens are ever among the first hundred.
void Sampler::FindLikeliest(std::span<const float> logits, float log_sum) {
  size_t known = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (known == likeliest_.size() && logits[i] <= likeliest_.back().log_probability) continue;
    if (known < likeliest_.size()) ++known;
    size_t at = known - 1;
    for (; at > 0 && likeliest_[at - 1].log_probability < logits[i]; --at) {
      likeliest_[at] = likeliest_[at - 1];
    }
    likeliest_[at] = {static_cast<int32_t>(i), logits[i]};
  }
  for (TokenProbability& each : likeliest_) each.log_probability -= log_sum;
}

int32_t Sampler::Draw(std::span<const float> logits, uint64_t draw) {
  size_t count = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -std::numeric_limits<float>::infinity()) {
      candidates_[count++] = {logits[i], static_cast<int32_t>(i)};
    }
  }
  if (count == 0) return 0;
  const auto begin = candidates_.begin();
  // Equal logits by token, so that the order is the same everywhere.
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  };
  const auto top_k = static_cast<size_t>(options_.top_k);
  if (top_k > 0 && top_k < count) {
    std::nth_element(begin, begin + static_cast<ptrdiff_t>(top_k),
                     begin + static_cast<ptrdiff_t>(count), likelier);
    count = top_k;
  }
  const std::span<Candidate> kept(candidates_.data(), count);
  std::ranges::sort(kept, likelier);
  const double largest = kept[0].logit;
  double total = 0;
  for (Candidate& each : kept) {
    each.logit = static_cast<float>(std::exp((each.logit - largest) / options_.temperature));
    total += each.logit;
  }
  // The smallest set whose share reaches top_p, then what is not below min_p of the first.
  double sum = 0;
  size_t end = 0;
  while (end < count && (end == 0 || sum < options_.top_p * total)) sum += kept[end++].logit;
  while (end > 1 && kept[end - 1].logit < options_.min_p * kept[0].logit) sum -= kept[--end].logit;
  double rest = CounterRandom(options_.seed).Uniform(draw) * sum;
  for (size_t i = 0; i < end; ++i) {
    rest -= kept[i].logit;
    if (rest < 0) return kept[i].token;
  }
  return kept[end - 1].token;
}

Sampled Sampler::Sample(std::span<float> logits, std::span<const int32_t> recent, uint64_t draw,
                        std::span<const uint64_t> allowed) {
  THINWIRE_CHECK(logits.size() == candidates_.size(), logits.size());
  const float log_sum = kernels::LogSumExp(context_, logits);
  if (!likeliest_.empty()) FindLikeliest(logits, log_sum);
  std::span<const float> original = logits;
  if (!original_.empty()) {
    std::ranges::copy(logits, original_.begin());
    original = original_;
    Penalize(logits, recent);
  }
  if (!allowed.empty()) Mask(allowed, logits);
  const int32_t token = options_.temperature == 0
                            ? static_cast<int32_t>(kernels::IndexOfLargest(context_, logits))
                            : Draw(logits, draw);
  return {.token = token,
          .log_probability = original[static_cast<size_t>(token)] - log_sum,
          .likeliest = likeliest_};
}

}  // namespace thinwire::infer
