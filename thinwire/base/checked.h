// Arithmetic on sizes that a file, a config or a peer supplied: overflow is an error, never a wrap.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "thinwire/base/error.h"

namespace thinwire {

// Both throw UsageError naming `what` when the result does not fit.
inline int64_t CheckedMul(int64_t a, int64_t b, std::string_view what) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) {
    throw UsageError(StrCat(what, ": ", a, " x ", b, " does not fit 64 bits"));
  }
  return result;
}

inline int64_t CheckedAdd(int64_t a, int64_t b, std::string_view what) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) {
    throw UsageError(StrCat(what, ": ", a, " + ", b, " does not fit 64 bits"));
  }
  return result;
}

// Elements of `shape`. Throws UsageError on a negative extent or an overflow.
inline int64_t CheckedNumel(std::span<const int64_t> shape, std::string_view what) {
  int64_t numel = 1;
  for (const int64_t extent : shape) {
    if (extent < 0) throw UsageError(StrCat(what, ": negative extent ", extent));
    numel = CheckedMul(numel, extent, what);
  }
  return numel;
}

}  // namespace thinwire
