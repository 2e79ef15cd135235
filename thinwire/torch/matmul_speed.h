// How fast this processor multiplies matrices, for an estimate of what a model computes.
#pragma once

#include <cstdint>

#include "thinwire/base/dtype.h"

namespace thinwire::adapter {

// Operations per second of [tokens, from] x [from, to], in time of the calling thread, so that
// other ranks of the machine do not slow it down. Sizes are cut where it would take long.
double MatmulSpeed(int64_t tokens, int64_t from, int64_t to, DType dtype);

}  // namespace thinwire::adapter
