#include "thinwire/speech/spectrum.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace thinwire::speech {
namespace {

using Complex = std::complex<double>;
constexpr size_t kSamples = PowerSpectrum400::kSamples;

// std::complex's own product looks for inf and NaN.
Complex Times(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
Complex TimesMinusI(Complex a) { return {a.imag(), -a.real()}; }

template <size_t kRadix>
std::array<Complex, kRadix> Butterfly(const std::array<Complex, kRadix>& x);

template <>
std::array<Complex, 4> Butterfly(const std::array<Complex, 4>& x) {
  const Complex a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = TimesMinusI(x[1] - x[3]);
  return {a + c, b + d, a - c, b - d};
}

template <>
std::array<Complex, 5> Butterfly(const std::array<Complex, 5>& x) {
  constexpr double kCos1 = 0.30901699437494742410, kCos2 = -0.80901699437494742410;
  constexpr double kSin1 = 0.95105651629515357212, kSin2 = 0.58778525229247312917;
  const Complex a = x[1] + x[4], b = x[2] + x[3];
  const Complex c = TimesMinusI(x[1] - x[4]), d = TimesMinusI(x[2] - x[3]);
  const Complex e = x[0] + kCos1 * a + kCos2 * b, f = x[0] + kCos2 * a + kCos1 * b;
  const Complex g = kSin1 * c + kSin2 * d, h = kSin2 * c - kSin1 * d;
  return {x[0] + a + b, e + g, f + h, f - h, e - g};
}

// One step of Stockham's method: transforms of `length` points, of which there are 400 / length,
// become kRadix times as many, interleaved.
template <size_t kRadix>
void Pass(size_t length, const std::array<Complex, kSamples>& roots, const Complex* in,
          Complex* out) {
  const size_t stride = kSamples / length, next = length / kRadix;
  for (size_t p = 0; p < next; ++p) {
    std::array<Complex, kRadix> twiddles;
    for (size_t k = 0; k < kRadix; ++k) twiddles[k] = roots[p * k * stride % kSamples];
    for (size_t q = 0; q < stride; ++q) {
      std::array<Complex, kRadix> x;
      for (size_t k = 0; k < kRadix; ++k) x[k] = in[q + stride * (p + k * next)];
      x = Butterfly<kRadix>(x);
      out[q + stride * kRadix * p] = x[0];
      for (size_t k = 1; k < kRadix; ++k) {
        out[q + stride * (kRadix * p + k)] = Times(x[k], twiddles[k]);
      }
    }
  }
}

}  // namespace

PowerSpectrum400::PowerSpectrum400() {
  for (size_t k = 0; k < kSamples; ++k) {
    const double angle = -2 * std::numbers::pi * static_cast<double>(k) / double{kSamples};
    roots_[k] = {std::cos(angle), std::sin(angle)};
  }
}

void PowerSpectrum400::Run(std::span<const double, kSamples> a, std::span<const double, kSamples> b,
                           std::span<double, kBins> power_a,
                           std::span<double, kBins> power_b) const {
  std::array<Complex, kSamples> x, y;
  for (size_t i = 0; i < kSamples; ++i) x[i] = {a[i], b[i]};
  Pass<4>(400, roots_, x.data(), y.data());
  Pass<4>(100, roots_, y.data(), x.data());
  Pass<5>(25, roots_, x.data(), y.data());
  Pass<5>(5, roots_, y.data(), x.data());
  for (size_t k = 0; k < kBins; ++k) {
    // Of real a and b: A = (X[k] + conj X[-k]) / 2, B = (X[k] - conj X[-k]) / 2i.
    const Complex same = x[k], other = std::conj(x[(kSamples - k) % kSamples]);
    power_a[k] = std::norm(same + other) / 4;
    power_b[k] = std::norm(same - other) / 4;
  }
}

}  // namespace thinwire::speech
