// A lossless entropy coder for packed codes: fewer bytes where they follow one of the distributions
// in entropy_tables.h, and hardly more where not. The same bytes on every instruction set.
//
// The format (it is sent over wires; entropy_test.cc holds golden bytes), little-endian:
//
//   directory  4 bytes for each segment of 48 KiB of the input, the last one shorter: the size of
//              its code, and in the upper byte 1 + the index of its table; 0: stored as it is
//   segments   one after the other
//
// A segment is coded by rANS (Duda 2014) with 32 states, symbol i by state i % 32. Symbols are the
// bytes; of int3, six bits at a time, lowest first. A state x begins as 2^15 and stays in
// [2^15, 2^31). To code a symbol of frequency f, with `before` the sum of those of smaller ones:
// where x >= 2^19 f the lower 16 bits of x are written and x shifted down by 16; then
// x = (x / f) 2^12 + before + x % f. The code is the words written, in the order of symbols, and
// then the 32 states of 4 bytes. So it is read from its end, and the last symbol comes first.
// Reading ends where all states are 2^15 and no word is left, or the code is damaged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "thinwire/base/context.h"
#include "thinwire/kernels/entropy_tables.h"

namespace thinwire::kernels {

constexpr int64_t kSegmentBytes = 48 * 1024;

// What Compress needs at most for `size` bytes.
constexpr int64_t MostCompressedBytes(int64_t size) {
  return size + 4 * ((size + kSegmentBytes - 1) / kSegmentBytes);
}

// `out` has MostCompressedBytes of room; returns how many are used. A segment gets the table that
// suits its histogram best, or is stored where none gains. Allocates nothing after the first call
// with this model.
int64_t Compress(const ExecContext& context, SymbolModel model, std::span<const std::byte> in,
                 std::span<std::byte> out);

// The inverse: fills `out` from the first bytes of `in` and returns how many they are, or -1 when
// they are no code of that many bytes. Any bytes may come in, and `in` may end anywhere.
[[nodiscard]] int64_t Expand(const ExecContext& context, SymbolModel model,
                             std::span<const std::byte> in, std::span<std::byte> out);

}  // namespace thinwire::kernels
