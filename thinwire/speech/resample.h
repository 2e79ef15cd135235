// Samples at another rate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thinwire::speech {

// ceil(samples * to / from) samples, the first at the same time as the first. Interpolation by a
// sinc under a Kaiser window, 48 zero crossings to each side: flat up to 0.44 of the lower rate, 90
// dB down from 0.5 of it on.
std::vector<float> Resample(std::span<const float> samples, int64_t from, int64_t to);

}  // namespace thinwire::speech
