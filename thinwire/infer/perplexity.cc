#include "thinwire/infer/perplexity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/kernels/decoder_rows.h"

namespace thinwire::infer {

double Perplexity::value() const { return std::exp(sum / static_cast<double>(tokens)); }

double Perplexity::standard_error() const {
  const double n = static_cast<double>(tokens), mean = sum / n;
  const double variance = std::max(0.0, squares / n - mean * mean);
  return value() * std::sqrt(variance / std::max(1.0, n - 1));
}

Perplexity MeasurePerplexity(Decoder& decoder, std::span<const int32_t> tokens, int32_t begin,
                             int64_t context, const PerplexityWatch& watch) {
  const DecoderLimits& limits = decoder.limits();
  const int64_t windows = std::ssize(tokens) / std::max<int64_t>(1, context);
  if (context < 4 || context > limits.cache.positions || windows < 2) {
    throw UsageError(StrCat("context: ", std::ssize(tokens), " tokens are no two windows of ",
                            context, ", or these do not fit ", limits.cache.positions,
                            " positions"));
  }
  const auto vocabulary = static_cast<size_t>(decoder.spec().vocabulary);
  Perplexity found;
  std::vector<int32_t> window(static_cast<size_t>(context));
  std::vector<int64_t> rows;
  rows.reserve(static_cast<size_t>(limits.outputs));
  for (int64_t w = 0; w < windows; ++w) {
    std::ranges::copy(tokens.subspan(static_cast<size_t>(w * context), window.size()),
                      window.begin());
    if (begin >= 0) window[0] = begin;
    if (watch.window) watch.window(window);
    decoder.cache().Truncate(0, 0);
    for (int64_t at = 0; at < context; at += limits.batch) {
      const int64_t count = std::min(limits.batch, context - at);
      const std::array segment = {Segment{.sequence = 0, .tokens = count}};
      decoder.Forward(
          std::span(window).subspan(static_cast<size_t>(at), static_cast<size_t>(count)), segment);
      // Row r foretells token at + r + 1.
      for (int64_t row = std::max<int64_t>(0, context / 2 - at); row < count;) {
        rows.clear();
        while (row < count && at + row + 1 < context && std::ssize(rows) < limits.outputs) {
          rows.push_back(row++);
        }
        if (rows.empty()) break;
        const std::span<const float> logits = decoder.Logits(rows);
        if (watch.logits) watch.logits(logits);
        for (size_t i = 0; i < rows.size(); ++i) {
          const auto of_row = logits.subspan(i * vocabulary, vocabulary);
          const auto next = static_cast<size_t>(window[static_cast<size_t>(at + rows[i] + 1)]);
          const double loss = kernels::LogSumExp(decoder.context(), of_row) - of_row[next];
          found.sum += loss;
          found.squares += loss * loss;
          ++found.tokens;
        }
      }
    }
    if (watch.progress) watch.progress(found, w + 1, windows);
  }
  decoder.cache().Truncate(0, 0);
  return found;
}

}  // namespace thinwire::infer
