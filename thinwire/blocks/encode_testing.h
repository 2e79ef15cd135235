// Rows as trained matrices have them, for tests of how well they are encoded.
#pragma once

#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/random.h"

namespace thinwire::blocks {

enum class Rows : uint8_t {
  kNormal,     // standard deviation 0.02
  kHeavyTail,  // Student's t with three degrees of freedom, scale 0.02
  kOutliers,   // normal, one weight in 500 twenty times as large
};

inline constexpr std::array kAllRows = {Rows::kNormal, Rows::kHeavyTail, Rows::kOutliers};

inline std::vector<float> SampleRows(Rows kind, int64_t elements) {
  const CounterRandom random(7);
  std::vector<float> values(static_cast<size_t>(elements));
  for (uint64_t i = 0; i < values.size(); ++i) {
    double value = 0.02 * random.Normal(5 * i);
    if (kind == Rows::kHeavyTail) {
      double chi = 0;
      for (uint64_t j = 1; j <= 3; ++j) chi += std::pow(random.Normal(5 * i + j), 2);
      value /= std::sqrt(chi / 3);
    } else if (kind == Rows::kOutliers && random.Bits(5 * i + 4) % 500 == 0) {
      value *= 20;
    }
    values[i] = static_cast<float>(value);
  }
  return values;
}

// Root of the mean squared difference over that of the values.
inline double RelativeError(std::span<const float> values, std::span<const float> decoded) {
  double missed = 0;
  double all = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    missed += std::pow(double{values[i]} - double{decoded[i]}, 2);
    all += std::pow(double{values[i]}, 2);
  }
  return std::sqrt(missed / all);
}

}  // namespace thinwire::blocks
