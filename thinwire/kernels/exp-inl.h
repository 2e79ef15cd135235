// Only for x_isa.cc: e^x on vectors of floats in the compiler's own notation.
#pragma once

#include <cstdint>

#include "thinwire/base/dtype.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors never cross a function that is not inlined

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

// `Float` and `Word` are vectors of as many float and uint32_t. A relative error below 2e-7; inputs
// are clamped to where the result is a normal number, NaN stays NaN. x = n ln 2 + r,
// |r| <= ln 2 / 2, and the Taylor polynomial of degree 7 leaves (ln 2 / 2)^8 / 8! = 5e-9.
template <typename Word, typename Float>
THINWIRE_INLINE Float ExpOf(Float x) {
  x = x < -87.0f ? Float{} - 87.0f : x;
  x = x > 88.0f ? Float{} + 88.0f : x;
  // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
  const Float shifted = x * 1.44269504f + 12582912.0f;
  const Float n = shifted - 12582912.0f;
  const Float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
  Float p = r * (1.0f / 5040) + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  Word exponent;
  __builtin_memcpy(&exponent, &shifted, sizeof(exponent));
  exponent = (exponent + 127u) << 23;
  Float power;
  __builtin_memcpy(&power, &exponent, sizeof(power));
  return p * power;
}

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA
