// Codecs by the names that recipes and plans use.
#pragma once

#include <memory>
#include <string_view>

#include "thinwire/codec/codec.h"

namespace thinwire::codec {

// "fp32", "bf16", "fp16"; "int8/128" and "int4/128" with any block that codec/block.h takes;
// "int4/128/searched". Throws UsageError naming `setting`.
std::shared_ptr<const Codec> ByName(std::string_view name, std::string_view setting);

}  // namespace thinwire::codec
