#include "thinwire/blocks/product.h"

#include <algorithm>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/base/error.h"
#include "thinwire/blocks/product_isa.h"

namespace thinwire::blocks {
namespace {

PanelForm PanelFormOf(WeightType type) {
  switch (type) {
    case WeightType::kQ4_1:
    case WeightType::kQ5_1:
    case WeightType::kQ4_K:
    case WeightType::kQ5_K:
      return {1, true};
    case WeightType::kQ2_K:
      return {2, true};
    case WeightType::kQ3_K:
    case WeightType::kQ6_K:
      return {2, false};
    default:
      return {1, false};
  }
}

struct Kernels {
  decltype(&scalar::MultiplyFew) few;
  decltype(&scalar::ExpandPanel) expand;
  decltype(&scalar::MultiplyPanel) panel;
  decltype(&scalar::MultiplyFloats) floats;
};

Kernels KernelsFor(Isa isa) {
  return {THINWIRE_PICK(isa, MultiplyFew), THINWIRE_PICK(isa, ExpandPanel),
          THINWIRE_PICK(isa, MultiplyPanel), THINWIRE_PICK(isa, MultiplyFloats)};
}

TileOut OutOf(const Product& product, const Activations& activations, int64_t tile, int64_t group) {
  const int64_t row = group * kGroupRows;
  const int64_t token = tile * kTileTokens;
  return {.out = product.out + token * product.stride + row,
          .stride = product.stride,
          .bias = product.bias == nullptr ? nullptr : product.bias + row,
          .tokens = std::min(activations.tokens() - token, kTileTokens),
          .rows = product.weights.rows() - row,
          .add = product.add};
}

GroupRun RunOf(const PackedMatrix& weights, int64_t begin, int64_t end) {
  return {.first = weights.Group(begin).data(), .count = end - begin, .columns = weights.columns()};
}

void MultiplyFloats(const Kernels& kernels, const Product& product, const Activations& activations,
                    int64_t begin, int64_t end) {
  const PackedMatrix& weights = product.weights;
  // One group after the other, as long as it is in the cache; all with a tile that is the only one.
  const int64_t groups = activations.tiles() == 1 ? end - begin : 1;
  for (int64_t group = begin; group < end; group += groups) {
    for (int64_t tile = 0; tile < activations.tiles(); ++tile) {
      kernels.floats(weights.type(), activations.TileWidth(tile),
                     RunOf(weights, group, group + groups), activations.Tile(tile),
                     OutOf(product, activations, tile, group));
    }
  }
}

void MultiplyPanels(const Kernels& kernels, const Product& product, const Activations& activations,
                    int64_t begin, int64_t end, std::byte* panel) {
  const PackedMatrix& weights = product.weights;
  const PanelForm form = PanelFormOf(weights.type());
  for (int64_t group = begin; group < end; ++group) {
    kernels.expand(weights.type(), weights.Group(group).data(), weights.columns(), panel);
    for (int64_t tile = 0; tile < activations.tiles(); ++tile) {
      kernels.panel(form, activations.TileWidth(tile), panel, weights.columns(),
                    activations.Tile(tile), OutOf(product, activations, tile, group));
    }
  }
}

void MultiplyOne(const Kernels& kernels, const Product& product, const Activations& activations,
                 int64_t begin, int64_t end, std::byte* scratch) {
  const PackedMatrix& weights = product.weights;
  if (activations.form() == ActivationForm::kFloat) {
    MultiplyFloats(kernels, product, activations, begin, end);
    return;
  }
  const bool few = activations.tiles() == 1 && activations.TileWidth(0) <= 4;
  if (few && kernels.few(weights.type(), activations.TileWidth(0), RunOf(weights, begin, end),
                         activations.Tile(0), OutOf(product, activations, 0, begin))) {
    return;
  }
  MultiplyPanels(kernels, product, activations, begin, end, scratch);
}

}  // namespace

int64_t ScratchBytes(WeightType type, int64_t columns) {
  if (FormFor(type) == ActivationForm::kFloat) return 0;
  return columns / kBlockColumns * PanelBlockBytes(PanelFormOf(type));
}

int64_t Groups(std::span<const Product> products) {
  int64_t groups = 0;
  for (const Product& product : products) groups += product.weights.groups();
  return groups;
}

void Multiply(const ExecContext& context, std::span<const Product> products,
              const Activations& activations, int64_t begin, int64_t end,
              std::span<std::byte> scratch) {
  THINWIRE_CHECK(0 <= begin && begin <= end && end <= Groups(products), begin, "-", end);
  THINWIRE_CHECK(reinterpret_cast<uintptr_t>(scratch.data()) % kAlignment == 0);
  if (activations.tokens() == 0) return;
  const Kernels kernels = KernelsFor(context.isa);
  int64_t first = 0;  // group of this matrix
  for (const Product& product : products) {
    const PackedMatrix& weights = product.weights;
    const int64_t from = std::max<int64_t>(begin - first, 0);
    const int64_t to = std::min(end - first, weights.groups());
    first += weights.groups();
    if (from >= to) continue;
    THINWIRE_CHECK(weights.columns() == activations.columns(), weights.columns(), " columns, not ",
                   activations.columns());
    THINWIRE_CHECK(FormFor(weights.type()) == activations.form(), NameOf(weights.type()));
    THINWIRE_CHECK(std::ssize(scratch) >= ScratchBytes(weights.type(), weights.columns()),
                   scratch.size());
    MultiplyOne(kernels, product, activations, from, to, scratch.data());
  }
}

}  // namespace thinwire::blocks
