#include "thinwire/blocks/activations_isa.h"

#include "thinwire/base/dtype.h"
#include "thinwire/blocks/activations_layout.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

constexpr float kLeastMagnitude = 0x1p-100f;  // of which 127 / m and 127 / 127 m are normal numbers
// Its unit is 1: added to a number of magnitude below 2^22, it rounds that to the nearest integer.
constexpr float kRounder = 0x1.8p23f;

// Loops over whole arrays, which compilers vectorize.
THINWIRE_INLINE void SetBlock(const float* x, std::byte* out, int64_t width) {
  uint32_t largest = 0;  // as bits of a magnitude: larger numbers, then inf, then NaN
  for (int i = 0; i < kBlockColumns; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x[i]) & 0x7fffffffu;
    largest = largest < bits ? bits : largest;
  }
  const float magnitude = __builtin_bit_cast(float, largest);
  float scale = magnitude / 127.0f;
  float inverse = 127.0f / magnitude;
  if (!(magnitude >= kLeastMagnitude)) scale = inverse = 0;
  if (largest >= 0x7f800000u) {
    scale = __builtin_bit_cast(float, 0x7fc00000u);
    inverse = 0;
  }
  int32_t codes[kBlockColumns];
  for (int i = 0; i < kBlockColumns; ++i) {
    // Not of NaN or inf times 0.
    const float scaled = inverse == 0 ? 0.0f : x[i] * inverse;
    codes[i] =
        __builtin_bit_cast(int32_t, scaled + kRounder) - __builtin_bit_cast(int32_t, kRounder);
  }
  int32_t sums[2] = {0, 0};
  for (int i = 0; i < 16; ++i) sums[0] += codes[i];
  for (int i = 16; i < 32; ++i) sums[1] += codes[i];
  int8_t bytes[kBlockColumns];
  for (int i = 0; i < kBlockColumns; ++i) bytes[i] = static_cast<int8_t>(codes[i]);
  for (int v = 0; v < 8; ++v) __builtin_memcpy(out + 4 * v * width, bytes + 4 * v, 4);
  const int32_t offsets[3] = {-128 * (sums[0] + sums[1]), -128 * sums[0], -128 * sums[1]};
  __builtin_memcpy(out + kScalePlace * width, &scale, 4);
  __builtin_memcpy(out + kSumPlace * width, &offsets[0], 4);
  __builtin_memcpy(out + kFirstSumPlace * width, &offsets[1], 4);
  __builtin_memcpy(out + kLastSumPlace * width, &offsets[2], 4);
}

}  // namespace

void SetInt8Token(const float* row, int64_t columns, std::byte* tile, int64_t width, int64_t slot) {
  std::byte* out = tile + 4 * slot;
  for (int64_t k = 0; k < columns; k += kBlockColumns) {
    SetBlock(row + k, out, width);
    out += kBlockBytesPerToken * width;
  }
}

void SetFloatToken(const float* row, int64_t columns, std::byte* tile, int64_t width,
                   int64_t slot) {
  float* out = reinterpret_cast<float*>(tile) + slot;
  for (int64_t k = 0; k < columns; ++k) out[k * width] = row[k];
}

}  // namespace thinwire::blocks::THINWIRE_ISA
