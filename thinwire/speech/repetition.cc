#include "thinwire/speech/repetition.h"

#include <algorithm>
#include <cmath>

namespace thinwire::speech {
namespace {

constexpr size_t kLooked = 32;
constexpr double kLeastEntropy = 2.4;
constexpr size_t kShortestCircle = 8;

double Entropy(std::span<const int32_t> tokens) {
  double entropy = 0;
  for (const int32_t token : tokens) {
    const auto same = static_cast<double>(std::ranges::count(tokens, token));
    entropy -= std::log(same / static_cast<double>(tokens.size()));
  }
  return entropy / static_cast<double>(tokens.size());
}

}  // namespace

bool RepeatsItself(std::span<const int32_t> tokens) {
  if (tokens.size() > kLooked && Entropy(tokens.last(kLooked)) < kLeastEntropy) return true;
  for (size_t period = kShortestCircle; 3 * period <= tokens.size(); ++period) {
    const std::span<const int32_t> end = tokens.last(3 * period);
    if (std::equal(end.begin(), end.end() - static_cast<ptrdiff_t>(period),
                   end.begin() + static_cast<ptrdiff_t>(period))) {
      return true;
    }
  }
  return false;
}

}  // namespace thinwire::speech
