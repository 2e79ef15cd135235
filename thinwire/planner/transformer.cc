#include "thinwire/planner/transformer.h"

#include <algorithm>
#include <cmath>

#include "thinwire/base/error.h"

namespace thinwire::planner {
namespace {

constexpr double kLeast = 1e5, kMost = 1e14;
constexpr int64_t kMostExtent = int64_t{1} << 20;
constexpr int64_t kMostLayers = 10'000;
constexpr int64_t kGrain = 32;  // of widths

void CheckGiven(std::string_view setting, int64_t found, int64_t most) {
  if (found >= 0 && found <= most) return;
  throw UsageError(
      StrCat(setting, " ", found, ": expected a number from 1 to ", most, ", or leave it out"));
}

int64_t Rounded(double value, int64_t grain) {
  return std::max<int64_t>(1, std::llround(value / static_cast<double>(grain))) * grain;
}

}  // namespace

int64_t TransformerShape::parameters() const {
  return 2 * vocab * hidden + hidden +
         layers * (4 * hidden * hidden + 3 * hidden * intermediate + 2 * hidden);
}

TransformerShape ShapeOf(double parameters, const TransformerShape& given) {
  if (!(parameters >= kLeast && parameters <= kMost)) {
    throw UsageError(StrCat("--params ", parameters, ": expected a number from ", kLeast, " to ",
                            kMost, ", e.g. 70e9"));
  }
  CheckGiven("--layers", given.layers, kMostLayers);
  CheckGiven("--hidden", given.hidden, kMostExtent);
  CheckGiven("--vocab", given.vocab, kMostExtent);
  TransformerShape shape = given;
  // A block has about 12 hidden^2 parameters.
  constexpr double kOfBlock = 12, kHiddenPerLayer = 128;
  if (shape.hidden == 0) {
    const double hidden = shape.layers > 0
                              ? std::sqrt(parameters / kOfBlock / static_cast<double>(shape.layers))
                              : std::cbrt(parameters * kHiddenPerLayer / kOfBlock);
    shape.hidden = Rounded(hidden, hidden < 1024 ? kGrain : 128);
  }
  const double hidden = static_cast<double>(shape.hidden);
  if (shape.vocab == 0) {
    shape.vocab = std::clamp<int64_t>(std::llround(parameters / 8 / hidden), 1, 32'000);
  }
  const double rest = parameters - 2 * hidden * static_cast<double>(shape.vocab) - hidden;
  if (shape.layers == 0) {
    shape.layers =
        std::clamp<int64_t>(std::llround(rest / kOfBlock / hidden / hidden), 1, kMostLayers);
  }
  const double of_layer = rest / static_cast<double>(shape.layers);
  const double intermediate = (of_layer - 4 * hidden * hidden - 2 * hidden) / (3 * hidden);
  if (!(intermediate >= 1 && intermediate <= static_cast<double>(kMostExtent))) {
    throw UsageError(StrCat("--params ", parameters, " is ", intermediate < 1 ? "less" : "more",
                            " than ", shape.layers, " layers of hidden size ", shape.hidden,
                            " and ", shape.vocab,
                            " words have: change --layers, --hidden or --vocab"));
  }
  shape.intermediate = Rounded(intermediate, kGrain);
  return shape;
}

std::vector<zero::UnitSpec> UnitsOf(const TransformerShape& shape) {
  const int64_t hidden = shape.hidden;
  std::vector<zero::UnitSpec> units;
  units.push_back({.name = "embedding",
                   .parameters = {{"embedding", {shape.vocab, hidden}}},
                   .weights_in_backward = false});
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer);
    units.push_back({.name = prefix,
                     .parameters = {{prefix + ".norm1", {hidden}},
                                    {prefix + ".q", {hidden, hidden}},
                                    {prefix + ".k", {hidden, hidden}},
                                    {prefix + ".v", {hidden, hidden}},
                                    {prefix + ".o", {hidden, hidden}},
                                    {prefix + ".norm2", {hidden}},
                                    {prefix + ".gate", {shape.intermediate, hidden}},
                                    {prefix + ".up", {shape.intermediate, hidden}},
                                    {prefix + ".down", {hidden, shape.intermediate}}}});
  }
  units.push_back(
      {.name = "head", .parameters = {{"norm", {hidden}}, {"head", {shape.vocab, hidden}}}});
  return units;
}

}  // namespace thinwire::planner
