#include "thinwire/blocks/product_isa.h"

#include "thinwire/blocks/packed_types-inl.h"
#include "thinwire/blocks/product_few-inl.h"
#include "thinwire/blocks/product_panel-inl.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

template <typename F>
THINWIRE_INLINE void WithRows(WeightType type, F&& f) {
  switch (type) {
    case WeightType::kQ4_0:
      return f(Q4_0Rows{});
    case WeightType::kQ4_1:
      return f(Q4_1Rows{});
    case WeightType::kQ5_0:
      return f(Q5_0Rows{});
    case WeightType::kQ5_1:
      return f(Q5_1Rows{});
    case WeightType::kQ8_0:
      return f(Q8_0Rows{});
    case WeightType::kIQ4_NL:
      return f(IQ4_NLRows{});
    case WeightType::kMXFP4:
      return f(MXFP4Rows{});
    case WeightType::kQ2_K:
      return f(Q2_KRows{});
    case WeightType::kQ3_K:
      return f(Q3_KRows{});
    case WeightType::kQ4_K:
      return f(Q4_KRows{});
    case WeightType::kQ5_K:
      return f(Q5_KRows{});
    case WeightType::kQ6_K:
      return f(Q6_KRows{});
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBF16:
      return;  // MultiplyFloats
  }
}

}  // namespace

bool MultiplyFew(WeightType type, int64_t width, const GroupRun& groups, const std::byte* tile,
                 const TileOut& out) {
  WithRows(type, [&](auto rows) {
    if constexpr (kFewInRegisters) MultiplyFewOf<decltype(rows)>(width, groups, tile, out);
  });
  return kFewInRegisters;
}

void ExpandPanel(WeightType type, const std::byte* group, int64_t columns, std::byte* panel) {
  WithRows(type, [&](auto rows) { ExpandPanelOf<decltype(rows)>(group, columns, panel); });
}

}  // namespace thinwire::blocks::THINWIRE_ISA
