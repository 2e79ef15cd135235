// Codecs of quantized blocks: codes of 8, 4, 3 or 1.6 bits with a bf16 scale per block of each run.
// The number formats with their error bounds stand in kernels/quantize.h and kernels/low_bits.h.
//
// Layout of a message (little-endian; block_test.cc holds golden bytes):
//
//   codes    of run 0, then of run 1, ...: for n elements n bytes (int8), or n/2 (int4), 3n/8
//   (int3),
//            n/5 (ternary), rounded up
//   scales   of run 0's blocks, then of run 1's, ...: 2 bytes each, n/block rounded up for a run
//
// Of a rotated format (kernels/rotate.h) these are the rotated elements; each run is one row.
//
// Sums decode in the terms' order and round as if each term were decoded to fp32 and then added.
// Every size is exact and checked before anything is read; any bytes of that size decode to numbers
// or NaN.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "thinwire/codec/codec.h"
#include "thinwire/kernels/rotate.h"

namespace thinwire::codec {

// Names "int8/128", "int4/64", ...; searched scales change only what is sent, not how it is read,
// and add "/searched" (for int8 they gain nothing). Throws UsageError naming `setting`, where the
// block size comes from, unless block is a multiple of 32 from 32 to 4096.
std::shared_ptr<const Codec> BlockInt8(int64_t block, std::string_view setting = "block");
std::shared_ptr<const Codec> BlockInt4(
    int64_t block, std::string_view setting = "block",
    kernels::ScaleChoice choice = kernels::ScaleChoice::kExtreme);

// Any of them. Named like "int3/128", "ternary/128", "int4/2048/max0.95", "ternary/128/rms1.22",
// "rot32+int4/128", "int4/128/coded": a factor of a Clip stands there to two decimals, unless it is
// that of DefaultRule; a seed does not. Throws UsageError as above, also for a block that is no
// multiple of the rotation's width.
struct BlockOptions {
  kernels::BlockFormat format;
  kernels::ScaleRule rule;
  std::optional<kernels::Rotation> rotation = std::nullopt;
  bool coded = false;  // entropy-coded on the way: coder() is set
};
std::shared_ptr<const Codec> Block(const BlockOptions& options, std::string_view setting = "block");

// What a rotated format's name begins with: "rot32+", "rot128+".
std::string RotationPrefix(int64_t width);

// Of a message of blocks with these runs.
struct BlockSizes {
  int64_t elements = 0;
  int64_t code_bytes = 0;
  int64_t scale_bytes = 0;
};
BlockSizes SizesOf(const kernels::BlockFormat& format, Runs runs);

// kExtreme for int8 and int4, kInt3Clip, kTernaryClip (kernels/low_bits.h).
kernels::ScaleRule DefaultRule(kernels::CodeType code);

}  // namespace thinwire::codec
