// Lossless coding of the bf16 scales of blocks: neighbours are alike, so what is coded is how far a
// scale is from those before.
//
// The format, for each 8192 scales (the last ones fewer):
//
//   bytes   what kernels/entropy.h makes (kDistances) of the lower bytes of their distances, then
//           of the upper bytes
//   1 byte  1 when some sign is set, else 0; with 1 then the signs, a bit each, lowest first
//
// The distance of a scale whose magnitude has the bits m: 0 where m = 0; else, with d = m - p,
// 2d + 1 for d >= 0 and -2d for d < 0. The prediction p is P / 16, rounded down; P begins as the
// first m that is not 0 times 16 (p is 0 for that one itself), and after each scale with m > 0 it
// becomes P + (16 m - P) / 8, rounded to zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "thinwire/base/context.h"

namespace thinwire::codec {

// What CompressScales needs at most.
int64_t MostScaleBytes(int64_t scales);

// `in` has 2 bytes for each scale, `out` MostScaleBytes of room; returns how many are used.
int64_t CompressScales(const ExecContext& context, std::span<const std::byte> in,
                       std::span<std::byte> out);

// The inverse: fills `out` from the first bytes of `in` and returns how many they are, or -1 when
// they are no code of that many scales.
[[nodiscard]] int64_t ExpandScales(const ExecContext& context, std::span<const std::byte> in,
                                   std::span<std::byte> out);

}  // namespace thinwire::codec
