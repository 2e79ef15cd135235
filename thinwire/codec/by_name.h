// Codecs by the names that recipes and plans use.
#pragma once

#include <memory>
#include <string_view>

#include "thinwire/codec/codec.h"

namespace thinwire::codec {

// "fp32", "bf16", "fp16", or blocks (codec/block.h):
//
//   [ROTATION+]CODE/BLOCK[/SCALE][/coded]
//
//   ROTATION  rot32, rot128: with seed 0
//   CODE      int8, int4, int3, ternary
//   BLOCK     a multiple of 32 up to 4096, under rot128 of 128
//   SCALE     maxF or rmsF: F times the largest magnitude or the root mean square of a block is the
//             largest code (not int8); F is 0.01 to 8, to two decimals. searched: int4 only.
//             Without it as DefaultRule says.
//   coded     entropy-coded on the way (codec/message_coder.h)
//
// Throws UsageError naming `setting`.
std::shared_ptr<const Codec> ByName(std::string_view name, std::string_view setting);

// Takes what ROTATION says off the front of a name, with its '+': the width, or 0.
int64_t TakeRotation(std::string_view& name);

}  // namespace thinwire::codec
