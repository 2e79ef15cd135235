// Power spectra of short pieces of real samples.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <span>

namespace thinwire::speech {

// Squared magnitudes of the discrete Fourier transform of 400 real samples, bins 0 to 200. Two
// pieces go through one complex transform; its 400 points are 4 x 4 x 5 x 5, by Stockham's method
// (Cooley and Tukey, 1965; no bit reversal), in fp64: quiet bins stand 80 dB below loud ones.
class PowerSpectrum400 {
 public:
  static constexpr size_t kSamples = 400;
  static constexpr size_t kBins = kSamples / 2 + 1;

  PowerSpectrum400();

  // Of `a` and of `b`.
  void Run(std::span<const double, kSamples> a, std::span<const double, kSamples> b,
           std::span<double, kBins> power_a, std::span<double, kBins> power_b) const;

 private:
  using Complex = std::complex<double>;
  std::array<Complex, kSamples> roots_;  // e^(-2 pi i k / 400)
};

}  // namespace thinwire::speech
