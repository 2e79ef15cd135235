// From fp32 to blocks, missing the weights by as little as the type allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "thinwire/base/context.h"
#include "thinwire/base/weight_type.h"

namespace thinwire::blocks {

// Consecutive rows of a tensor.
struct EncodeRows {
  std::span<const float> values;  // a whole number of rows
  int64_t columns = 0;            // a multiple of BlockElements(type)
  // How much the squared error of a column's weights counts, `columns` finite numbers >= 0: means
  // of squared activations, say. Empty: all alike.
  std::span<const float> importance = {};
  std::string_view name = "the tensor";  // and the first row's place in it: for messages
  int64_t first_row = 0;
};

// The largest absolute value that `type` holds: codes grow to a few times the fp16 scale's 65504.
float LargestEncodable(WeightType type);

// `blocks` are exactly the bytes of `rows.values` in `type`. Minimises the sum over all elements of
// importance * (value - decoded)^2 by a search (encode_search-inl.h) for the types that come in
// blocks; the others are rounded to nearest even. The same bytes on every instruction set; rows are
// independent of each other, so threads may share out a tensor in any way.
//
// Throws UsageError naming tensor, row and column of a NaN, an inf, and a value beyond
// LargestEncodable.
void Encode(const ExecContext& context, WeightType type, const EncodeRows& rows,
            std::span<std::byte> blocks);

}  // namespace thinwire::blocks
