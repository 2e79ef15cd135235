#include "thinwire/blocks/product_panel-inl.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

template <PanelForm kForm>
THINWIRE_INLINE void Multiply(int64_t width, const std::byte* panel, int64_t columns,
                              const std::byte* tile, const TileOut& out) {
  if (width == 1) return MultiplyPanelOf<kForm, 1>(panel, columns, tile, out);
  if (width == 2) return MultiplyPanelOf<kForm, 2>(panel, columns, tile, out);
  if (width == 4) return MultiplyPanelOf<kForm, 4>(panel, columns, tile, out);
  if (width == 8) return MultiplyPanelOf<kForm, 8>(panel, columns, tile, out);
  MultiplyPanelOf<kForm, 12>(panel, columns, tile, out);
}

}  // namespace

void MultiplyPanel(PanelForm form, int64_t width, const std::byte* panel, int64_t columns,
                   const std::byte* tile, const TileOut& out) {
  if (form.scales == 1 && !form.minimum) {
    Multiply<PanelForm{1, false}>(width, panel, columns, tile, out);
  } else if (form.scales == 1) {
    Multiply<PanelForm{1, true}>(width, panel, columns, tile, out);
  } else if (!form.minimum) {
    Multiply<PanelForm{2, false}>(width, panel, columns, tile, out);
  } else {
    Multiply<PanelForm{2, true}>(width, panel, columns, tile, out);
  }
}

}  // namespace thinwire::blocks::THINWIRE_ISA
