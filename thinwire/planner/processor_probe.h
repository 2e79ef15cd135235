// How fast this processor codes and updates, measured in a few milliseconds each.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "thinwire/base/context.h"
#include "thinwire/codec/codec.h"
#include "thinwire/planner/machine.h"
#include "thinwire/zero/recipe.h"

namespace thinwire::planner {

// The codecs of these recipes, each once, with the raw ones of `wire`. Throws UsageError for a
// recipe that is none.
std::vector<zero::CodecPtr> CodecsOf(std::span<const std::string_view> recipes, DType wire);

// In time of one thread. The arrays are larger than a core's own cache and the values are normally
// distributed.
CodecSpeed MeasureCodec(const codec::Codec& codec, const ExecContext& context);

// AdamW's update, the sum of squares, and copies: sets what `machine` says of them.
void MeasureArithmetic(const ExecContext& context, Machine& machine);

// Of this process's machine and the cores that it may use there: processes with the same id share
// their UsableCores (base/cpu_features.h).
uint64_t CoresId();

}  // namespace thinwire::planner
