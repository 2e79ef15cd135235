#include "thinwire/speech/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/kernels/decoder_rows.h"

namespace thinwire::speech {
namespace {

// The sequence that holds the prompt; hypotheses begin as copies of it.
constexpr int64_t kPrompt = 0;

}  // namespace

Search::Search(Decoder& decoder, const Vocabulary& vocabulary, int64_t width)
    : decoder_(decoder),
      vocabulary_(vocabulary),
      rules_(vocabulary),
      width_(width),
      max_tokens_(decoder.spec().text_positions / 2) {
  const auto wide = static_cast<size_t>(width);
  const auto sequences = static_cast<size_t>(decoder.limits().sequences);
  THINWIRE_CHECK(width >= 1 && decoder.limits().running >= width + 1 && sequences >= 2 * wide + 1);
  prompt_logits_.resize(static_cast<size_t>(vocabulary.size()));
  tokens_.resize(sequences * static_cast<size_t>(max_tokens_));
  ended_tokens_.resize(2 * wide * static_cast<size_t>(max_tokens_));
  live_.reserve(wide);
  next_.reserve(wide);
  candidates_.reserve(wide * (wide + 1));
  best_.reserve(wide + 1);
  free_.reserve(sequences);
  feed_.reserve(wide);
  segments_.reserve(wide);
  rows_.reserve(wide);
  ended_.reserve(2 * wide);
}

double Search::Begin(std::span<const int32_t> prompt, int64_t start) {
  const auto length = static_cast<int64_t>(prompt.size());
  THINWIRE_CHECK(
      length >= 1 && length <= decoder_.spec().text_positions - max_tokens_ && start >= 0,
      "a prompt of ", length);
  infer::KvCache& cache = decoder_.cache();
  for (int64_t i = 0; i < cache.sequences(); ++i) cache.Truncate(i, 0);
  prompt_length_ = length;
  const std::array segments = {Segment{.sequence = kPrompt, .tokens = length}};
  decoder_.Forward(prompt, segments);
  const std::array rows = {start, length - 1};
  const std::span<float> logits = decoder_.Logits(rows);
  const auto size = static_cast<size_t>(vocabulary_.size());
  const std::span<float> at_start = logits.first(size);
  const float total = kernels::LogSumExp(decoder_.context(), at_start);
  std::ranges::copy(logits.subspan(size, size), prompt_logits_.begin());
  return std::exp(at_start[static_cast<size_t>(vocabulary_.no_speech())] - total);
}

int32_t Search::Language() {
  const auto& languages = vocabulary_.languages();
  const auto best = std::ranges::max_element(languages, {}, [this](const auto& language) {
    return prompt_logits_[static_cast<size_t>(language.id)];
  });
  THINWIRE_CHECK(best != languages.end());
  return best->id;
}

void Search::Reset(int64_t copies) {
  infer::KvCache& cache = decoder_.cache();
  for (int64_t i = 0; i < cache.sequences(); ++i) {
    if (i != kPrompt) cache.Truncate(i, 0);
  }
  live_.clear();
  ended_.clear();
  free_.clear();
  for (int64_t i = cache.sequences() - 1; i > kPrompt; --i) free_.push_back(i);
  for (int64_t i = 0; i < copies; ++i) {
    live_.push_back({.score = 0, .sequence = free_.back(), .length = 0});
    free_.pop_back();
    cache.Share(kPrompt, live_.back().sequence, prompt_length_);
  }
}

std::span<float> Search::Logits() {
  feed_.clear();
  segments_.clear();
  rows_.clear();
  for (const Hypothesis& h : live_) {
    rows_.push_back(static_cast<int64_t>(feed_.size()));
    feed_.push_back(TokensOf(h).back());
    segments_.push_back({.sequence = h.sequence, .tokens = 1});
  }
  decoder_.Forward(feed_, segments_);
  return decoder_.Logits(rows_);
}

// The width + 1 best tokens of one hypothesis: should one of them be the end, enough are left.
void Search::KeepBest(size_t parent, std::span<const float> logits, double offset) {
  const auto worse = [](const Candidate& a, const Candidate& b) { return a.score > b.score; };
  best_.clear();
  float least = -INFINITY;
  const auto most = static_cast<size_t>(width_ + 1);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > least)) continue;
    if (best_.size() == most) {
      std::pop_heap(best_.begin(), best_.end(), worse);
      best_.pop_back();
    }
    best_.push_back({.score = logits[i], .parent = parent, .token = static_cast<int32_t>(i)});
    std::push_heap(best_.begin(), best_.end(), worse);
    if (best_.size() == most) least = static_cast<float>(best_.front().score);
  }
  for (Candidate& candidate : best_) {
    candidate.score += offset;
    candidates_.push_back(candidate);
  }
}

void Search::CollectBest(std::span<float> logits) {
  candidates_.clear();
  const auto size = static_cast<size_t>(vocabulary_.size());
  for (size_t i = 0; i < live_.size(); ++i) {
    const std::span<float> own = logits.subspan(i * size, size);
    const float total = rules_.Apply(decoder_.context(), TokensOf(live_[i]), own);
    KeepBest(i, own, live_[i].score - double{total});
  }
  // Equal scores: the hypothesis that stood first, then the lower token.
  std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
  });
}

// One token each: the first at which the sum of probabilities exceeds a random number.
void Search::CollectDrawn(std::span<float> logits, double temperature, uint64_t seed) {
  candidates_.clear();
  const auto size = static_cast<size_t>(vocabulary_.size());
  for (size_t i = 0; i < live_.size(); ++i) {
    const std::span<float> own = logits.subspan(i * size, size);
    const float total = rules_.Apply(decoder_.context(), TokensOf(live_[i]), own);
    const float largest =
        own[static_cast<size_t>(kernels::IndexOfLargest(decoder_.context(), own))];
    const auto weight = [&](float logit) {
      return logit == -INFINITY ? 0.0 : std::exp(double{logit - largest} / temperature);
    };
    double sum = 0;
    for (const float logit : own) sum += weight(logit);
    const uint64_t key = Mix64(seed) ^ static_cast<uint64_t>(live_[i].sequence);
    double left = sum * CounterRandom(key).Uniform(static_cast<uint64_t>(live_[i].length));
    size_t token = size;
    for (size_t k = 0; k < size && left >= 0; ++k) {
      const double w = weight(own[k]);
      if (w == 0) continue;
      token = k;
      left -= w;
    }
    candidates_.push_back({.score = live_[i].score + own[token] - total,
                           .parent = i,
                           .token = static_cast<int32_t>(token)});
  }
}

void Search::Finish(const Hypothesis& hypothesis, double score) {
  if (ended_.size() == ended_.capacity()) return;
  std::ranges::copy(TokensOf(hypothesis),
                    ended_tokens_.begin() + static_cast<ptrdiff_t>(ended_.size()) * max_tokens_);
  ended_.push_back({.score = score, .length = hypothesis.length});
}

// The candidates become the live hypotheses, those that end are put away.
void Search::Advance() {
  infer::KvCache& cache = decoder_.cache();
  next_.clear();
  const auto wide = static_cast<size_t>(width_);
  for (const Candidate& candidate : candidates_) {
    if (next_.size() == wide) break;
    const Hypothesis& parent = live_[candidate.parent];
    if (candidate.token == vocabulary_.end_of_text()) {
      Finish(parent, candidate.score);
      continue;
    }
    Hypothesis child = {
        .score = candidate.score, .sequence = free_.back(), .length = parent.length + 1};
    free_.pop_back();
    cache.Share(parent.sequence, child.sequence, cache.Length(parent.sequence));
    std::ranges::copy(TokensOf(parent), TokensOf(child.sequence).begin());
    TokensOf(child.sequence)[static_cast<size_t>(parent.length)] = candidate.token;
    next_.push_back(child);
  }
  for (const Hypothesis& h : live_) {
    cache.Truncate(h.sequence, 0);
    free_.push_back(h.sequence);
  }
  std::swap(live_, next_);
}

SearchResult Search::Best() {
  const auto mean = [](const Ended& e) {
    return e.score / static_cast<double>(std::max<int64_t>(1, e.length));
  };
  const auto best = std::ranges::max_element(ended_, {}, mean);
  THINWIRE_CHECK(best != ended_.end());
  const auto index = static_cast<size_t>(best - ended_.begin());
  return {.tokens = std::span(ended_tokens_)
                        .subspan(index * static_cast<size_t>(max_tokens_),
                                 static_cast<size_t>(best->length)),
          .mean_log_probability = best->score / static_cast<double>(best->length + 1)};
}

SearchResult Search::Run(double temperature, uint64_t seed) {
  const bool draw = temperature > 0;
  Reset(draw ? width_ : 1);
  for (int64_t step = 0; step < max_tokens_ && !live_.empty(); ++step) {
    std::span<float> logits;
    if (step == 0) {
      logits = decoder_.Repeat(prompt_logits_, static_cast<int64_t>(live_.size()));
    } else {
      logits = Logits();
    }
    if (draw) {
      CollectDrawn(logits, temperature, seed);
    } else {
      CollectBest(logits);
    }
    Advance();
    if (!draw && static_cast<int64_t>(ended_.size()) >= width_) break;
  }
  // Unfinished ones count only where nothing better came of it.
  if (draw || static_cast<int64_t>(ended_.size()) < width_) {
    for (const Hypothesis& h : live_) Finish(h, h.score);
  }
  return Best();
}

}  // namespace thinwire::speech
