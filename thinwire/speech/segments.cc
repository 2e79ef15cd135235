#include "thinwire/speech/segments.h"

#include <algorithm>

#include "thinwire/speech/log_mel.h"
#include "thinwire/text/utf8.h"

namespace thinwire::speech {
namespace {

constexpr double kTimeStep = 0.02;
constexpr int64_t kFramesPerTime = 2;
// A window that ends with its very first segments would be heard again and again.
constexpr int64_t kLeastFrames = kFramesPerSecond / 2;

constexpr std::string_view kSpaces = " \t\r\n\f\v";

std::string WellFormed(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const text::Utf8Step step = text::NextUtf8(bytes);
    const bool valid = step.state == text::Utf8State::kValid;
    out += valid ? bytes.substr(0, step.size) : text::kReplacement;
    bytes.remove_prefix(step.size);
  }
  return out;
}

}  // namespace

Split SplitAtTimes(const Vocabulary& vocabulary, std::span<const int32_t> tokens, int64_t content) {
  const auto time = [&](size_t i) { return int64_t{tokens[i] - vocabulary.first_timestamp()}; };
  const auto is_time = [&](size_t i) { return vocabulary.IsTimestamp(tokens[i]); };
  const size_t size = tokens.size();
  Split split = {.segments = {}, .frames = content};
  std::vector<size_t> cuts;  // where one segment's end and the next one's beginning meet
  for (size_t i = 1; i < size; ++i) {
    if (is_time(i - 1) && is_time(i)) cuts.push_back(i);
  }
  const bool complete = size >= 2 && is_time(size - 1) && !is_time(size - 2);
  if (cuts.empty()) {
    double end = static_cast<double>(content) / double{kFramesPerSecond};
    const auto last = std::find_if(tokens.rbegin(), tokens.rend(),
                                   [&](int32_t token) { return vocabulary.IsTimestamp(token); });
    const bool timed = last != tokens.rend() && *last != vocabulary.first_timestamp();
    if (timed) end = static_cast<double>(*last - vocabulary.first_timestamp()) * kTimeStep;
    const double begin =
        size > 0 && is_time(0) && complete ? static_cast<double>(time(0)) * kTimeStep : 0;
    split.segments.push_back({.begin = begin, .end = end, .tokens = tokens});
    return split;
  }
  if (complete) cuts.push_back(size);
  size_t from = 0;
  for (const size_t cut : cuts) {
    split.segments.push_back({.begin = static_cast<double>(time(from)) * kTimeStep,
                              .end = static_cast<double>(time(cut - 1)) * kTimeStep,
                              .tokens = tokens.subspan(from, cut - from)});
    from = cut;
  }
  if (!complete) {
    split.frames =
        std::clamp(time(from - 1) * kFramesPerTime, std::min(kLeastFrames, content), content);
  }
  return split;
}

std::string TextOf(const Vocabulary& vocabulary, std::span<const int32_t> tokens) {
  std::string text;
  for (const int32_t token : tokens) {
    if (vocabulary.IsText(token)) text += vocabulary.BytesOf(token);
  }
  text = WellFormed(text);
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

}  // namespace thinwire::speech
