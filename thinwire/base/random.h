// Random numbers that are a function of (key, index) alone, so that any rank can compute any
// element of any parameter, or any sample of the data, without the ones before it.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace thinwire {

// SplitMix64's finalizer (Steele, Lea, Flood 2014).
constexpr uint64_t Mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr uint64_t HashBytes(std::string_view bytes, uint64_t seed = 0) {
  uint64_t hash = Mix64(seed);
  for (const char c : bytes) hash = Mix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

class CounterRandom {
 public:
  // Mixed twice, where an index is mixed once: else (key, index) and (index, key) would agree.
  explicit constexpr CounterRandom(uint64_t key) : key_(Mix64(Mix64(key))) {}

  constexpr uint64_t Bits(uint64_t index) const { return Mix64(key_ ^ Mix64(index)); }
  // In [0, 1), 53 bits.
  constexpr double Uniform(uint64_t index) const {
    return static_cast<double>(Bits(index) >> 11) * 0x1p-53;
  }
  // Standard normal (Box-Muller on two uniforms of this index).
  double Normal(uint64_t index) const {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform(2 * index)));
    return radius * std::cos(2.0 * std::numbers::pi * Uniform(2 * index + 1));
  }

 private:
  uint64_t key_;
};

}  // namespace thinwire
