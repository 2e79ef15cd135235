#include "thinwire/speech/token_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "thinwire/kernels/decoder_rows.h"

namespace thinwire::speech {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
// The first segment begins within a second, 50 steps.
constexpr int32_t kLastFirstTime = 50;

}  // namespace

TokenRules::Times TokenRules::AllowedTimes(std::span<const int32_t> tokens) const {
  Times times = {.begin = vocabulary_.first_timestamp(), .end = vocabulary_.size()};
  if (tokens.empty()) {
    times.end = std::min(times.end, times.begin + kLastFirstTime + 1);
    return times;
  }
  const bool last = vocabulary_.IsTimestamp(tokens.back());
  const bool before = tokens.size() < 2 || vocabulary_.IsTimestamp(tokens[tokens.size() - 2]);
  if (last && before) return {.begin = times.begin, .end = times.begin};  // text comes next
  const auto latest = std::find_if(tokens.rbegin(), tokens.rend(), [this](int32_t token) {
    return vocabulary_.IsTimestamp(token);
  });
  // A segment may begin when the one before ended, but not end when it begins.
  if (latest != tokens.rend()) times.begin = last ? *latest : *latest + 1;
  return times;
}

float TokenRules::Apply(const ExecContext& context, std::span<const int32_t> tokens,
                        std::span<float> logits) const {
  const auto first = static_cast<size_t>(vocabulary_.first_timestamp());
  for (const int32_t id : vocabulary_.suppressed()) logits[static_cast<size_t>(id)] = kNever;
  logits[static_cast<size_t>(vocabulary_.no_timestamps())] = kNever;
  const Times allowed = AllowedTimes(tokens);
  const auto begin = static_cast<size_t>(allowed.begin), end = static_cast<size_t>(allowed.end);
  std::fill(logits.begin() + static_cast<ptrdiff_t>(first),
            logits.begin() + static_cast<ptrdiff_t>(begin), kNever);
  std::fill(logits.begin() + static_cast<ptrdiff_t>(end), logits.end(), kNever);
  const std::span<float> times = logits.subspan(begin, end - begin);
  const std::span<float> text = logits.first(first);
  if (tokens.empty()) {
    std::fill(text.begin(), text.end(), kNever);
    return kernels::LogSumExp(context, times);
  }
  if (tokens.size() == 1) {
    for (const int32_t id : vocabulary_.suppressed_first()) {
      logits[static_cast<size_t>(id)] = kNever;
    }
  }
  const bool last = vocabulary_.IsTimestamp(tokens.back());
  if (last && !times.empty()) {  // a segment has ended: the next begins, or nothing follows
    std::fill_n(text.begin(), vocabulary_.end_of_text(), kNever);
  }
  if (times.empty()) return kernels::LogSumExp(context, text);
  const float of_times = kernels::LogSumExp(context, times);
  const auto best = static_cast<size_t>(kernels::IndexOfLargest(context, text));
  if (of_times > text[best]) {
    std::fill(text.begin(), text.end(), kNever);
    return of_times;
  }
  const float of_text = kernels::LogSumExp(context, text);
  const float larger = std::max(of_text, of_times);
  return larger + std::log(std::exp(of_text - larger) + std::exp(of_times - larger));
}

}  // namespace thinwire::speech
