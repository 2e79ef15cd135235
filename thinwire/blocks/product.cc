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

// One tile, by codes taken apart as they are used.
void MultiplyTile(const Kernels& kernels, const Product& product, const Activations& activations,
                  int64_t tile, int64_t begin, int64_t end) {
  const PackedMatrix& weights = product.weights;
  const GroupRun run = {.first = weights.Group(begin).data(),
                        .bytes = std::ssize(weights.Group(begin)),
                        .count = end - begin,
                        .columns = weights.columns()};
  const auto multiply = activations.form() == ActivationForm::kFloat ? kernels.floats : kernels.few;
  multiply(weights.type(), activations.TileWidth(tile), run, activations.Tile(tile),
           OutOf(product, activations, tile, begin));
}

void MultiplyByPanels(const Kernels& kernels, const Product& product,
                      const Activations& activations, int64_t begin, int64_t end,
                      std::byte* panel) {
  const PackedMatrix& weights = product.weights;
  const PanelForm form = PanelFormOf(weights.type());
  for (int64_t group = begin; group < end; ++group) {
    kernels.expand(weights.type(), weights.Group(group).data(), weights.columns(), panel);
    for (int64_t tile = 0; tile < activations.tiles(); ++tile) {
      const int64_t width = activations.TileWidth(tile);
      if (width < 4) {
        MultiplyTile(kernels, product, activations, tile, group, group + 1);
        continue;
      }
      TileOut out = OutOf(product, activations, tile, group);
      out.rows = std::min(out.rows, kGroupRows);
      kernels.panel(form, width, panel, weights.columns(), activations.Tile(tile), out);
    }
  }
}

void MultiplyOne(const Kernels& kernels, const Product& product, const Activations& activations,
                 int64_t begin, int64_t end, std::byte* scratch) {
  if (activations.tiles() == 1 && activations.TileWidth(0) <= 4) {
    MultiplyTile(kernels, product, activations, 0, begin, end);
  } else if (activations.form() == ActivationForm::kFloat) {
    for (int64_t group = begin; group < end; ++group) {
      for (int64_t tile = 0; tile < activations.tiles(); ++tile) {
        MultiplyTile(kernels, product, activations, tile, group, group + 1);
      }
    }
  } else {
    MultiplyByPanels(kernels, product, activations, begin, end, scratch);
  }
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
