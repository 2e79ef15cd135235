// What a unit is: parameters gathered and released together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/dtype.h"

namespace thinwire::zero {

// In ParameterSpec::group: 0 for parameters of 2 and more dimensions, 1 for the others, which are
// usually not decayed.
constexpr int kGroupByKind = -1;

struct ParameterSpec {
  std::string name;            // unique in the model, e.g. "layers.3.attention.wq"
  std::vector<int64_t> shape;  // any rank, any extent >= 0
  int group = kGroupByKind;    // in EngineOptions::groups
};

struct UnitSpec {
  std::string name;  // e.g. "layers.3"
  std::vector<ParameterSpec> parameters;
  // False where backward does not read the weights (an embedding), so that they are not gathered
  // again for it.
  bool weights_in_backward = true;
  // False for a frozen unit: it is gathered like any other, but has no gradients and no optimizer
  // state, and its weights are sent after a refresh only.
  bool trainable = true;
  // Of its gathered weights and its gradients; unset: EngineOptions::compute.
  std::optional<DType> compute{};
};

}  // namespace thinwire::zero
