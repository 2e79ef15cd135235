// The loops of product.h; checks are the caller's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "thinwire/base/weight_type.h"
#include "thinwire/kernels/per_isa.h"

namespace thinwire::blocks {

// Where the products of 16 rows and the tokens of a tile go.
struct TileOut {
  float* out;  // out[token * stride + row]
  int64_t stride;
  const float* bias;  // of the first row, or null
  int64_t tokens;     // that are wanted, the first ones of the tile
  int64_t rows;       // that are left, perhaps more than 16
  bool add;
};

// Groups of rows as they are packed, end to end.
struct GroupRun {
  const std::byte* first;
  int64_t count;
  int64_t columns;
};

// A panel: one group's codes, a byte each, with fp32 scales and minima, by blocks of 32 columns.
struct PanelForm {
  int scales = 1;  // per block
  bool minimum = false;
};
constexpr int64_t PanelBlockBytes(PanelForm form) {
  return 512 + 64 * form.scales * (form.minimum ? 2 : 1);
}

THINWIRE_PER_ISA(
    // A tile of `width` 1, 2 or 4 with each group of the run; `out` is that of the first group.
    // Does nothing and returns false where panels are the better way for few tokens, too.
    bool MultiplyFew(WeightType type, int64_t width, const GroupRun& groups, const std::byte* tile,
                     const TileOut& out);
    void ExpandPanel(WeightType type, const std::byte* group, int64_t columns, std::byte* panel);
    void MultiplyPanel(PanelForm form, int64_t width, const std::byte* panel, int64_t columns,
                       const std::byte* tile, const TileOut& out);
    // As MultiplyFew, of weights in F32, F16 or BF16 and tiles of any width.
    void MultiplyFloats(WeightType type, int64_t width, const GroupRun& groups,
                        const std::byte* tile, TileOut out);)

}  // namespace thinwire::blocks
