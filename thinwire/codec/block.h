// Codecs of quantized blocks: int8 or int4 codes with a bf16 scale per block of each run. The
// number format with its error bound stands in kernels/quantize.h.
//
// Layout of a message (little-endian; block_test.cc holds golden bytes):
//
//   codes    of run 0, then of run 1, ...: n bytes (int8) or n/2 rounded up (int4) for n elements
//   scales   of run 0's blocks, then of run 1's, ...: 2 bytes each, n/block rounded up for a run
//
// Sums decode in the terms' order and round as if each term were decoded to fp32 and then added.
// Every size is exact and checked before anything is read; any bytes of that size decode to numbers
// or NaN.
#pragma once

#include <memory>
#include <string_view>

#include "thinwire/codec/codec.h"
#include "thinwire/kernels/quantize.h"

namespace thinwire::codec {

// Names "int8/128", "int4/64", ...; searched scales change only what is sent, not how it is read,
// and add "/searched" (for int8 they gain nothing). Throws UsageError naming `setting`, where the
// block size comes from, unless block is a multiple of 32 from 32 to 4096.
std::shared_ptr<const Codec> BlockInt8(int64_t block, std::string_view setting = "block");
std::shared_ptr<const Codec> BlockInt4(
    int64_t block, std::string_view setting = "block",
    kernels::ScaleChoice choice = kernels::ScaleChoice::kExtreme);

}  // namespace thinwire::codec
