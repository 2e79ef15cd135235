#include "thinwire/optim/loss_scaler.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"

namespace thinwire::optim {

namespace {

void Require(bool holds, std::string_view option, double value, std::string_view expected) {
  if (!holds) {
    throw UsageError(StrCat("loss scale: ", option, " = ", value, ": it must be ", expected));
  }
}

template <typename... Values>
uint64_t HashOf(Values... values) {
  uint64_t hash = 0;
  ((hash = Mix64(hash ^ std::bit_cast<uint64_t>(static_cast<double>(values)))), ...);
  return hash;
}

}  // namespace

uint64_t Fingerprint(const LossScaleOptions& options) {
  return HashOf(options.fixed, options.initial, options.least, options.window, options.hysteresis,
                options.each_good_step);
}

uint64_t Fingerprint(const LossScale& state) {
  return HashOf(state.scale, state.good_steps, state.bad_steps);
}

LossScaler::LossScaler(bool enabled, const LossScaleOptions& options)
    : enabled_(enabled), options_(options) {
  const auto is_scale = [](double value) { return value > 0 && value <= kLargest; };
  constexpr std::string_view kScale = "in (0, 2^24]";
  Require(options.fixed == 0 || is_scale(options.fixed), "fixed", options.fixed,
          "0 or in (0, 2^24]");
  Require(is_scale(options.initial), "initial", options.initial, kScale);
  Require(is_scale(options.least), "least", options.least, kScale);
  Require(options.least <= options.initial, "least", options.least, "at most the initial scale");
  Require(options.window >= 1, "window", static_cast<double>(options.window), ">= 1");
  Require(options.hysteresis >= 1, "hysteresis", static_cast<double>(options.hysteresis), ">= 1");
  state_ = Initial();
}

LossScale LossScaler::Initial() const {
  return {.scale = options_.fixed > 0 ? options_.fixed : options_.initial};
}

void LossScaler::Update(bool finite) {
  if (!enabled_ || options_.fixed > 0) return;
  if (finite) {
    if (options_.each_good_step) state_.bad_steps = 0;
    if (++state_.good_steps == options_.window) {
      state_ = {.scale = std::min(2 * state_.scale, kLargest)};
    }
    return;
  }
  state_.good_steps = 0;
  if (state_.bad_steps + 1 < options_.hysteresis) {
    ++state_.bad_steps;
    return;
  }
  if (state_.scale / 2 < options_.least) {
    throw UsageError(StrCat("the gradients hold inf or NaN even at a loss scale of ", state_.scale,
                            ", so they do not fit fp16: set training.compute to bf16"));
  }
  state_.scale /= 2;
}

}  // namespace thinwire::optim
