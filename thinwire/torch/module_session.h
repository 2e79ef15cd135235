// One engine for a user's model: links, engine and adapter with their lifetimes in order. What the
// Python module shows of thinwire.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "thinwire/torch/group_links.h"
#include "thinwire/torch/module_adapter.h"
#include "thinwire/zero/engine.h"
#include "thinwire/zero/options.h"
#include "thinwire/zero/unit.h"

namespace thinwire::adapter {

class ModuleSession {
 public:
  struct Setup {
    zero::EngineOptions options;
    int hosts = 0;           // 0: from the machines that the ranks run on
    int ranks_per_host = 0;  // likewise
  };

  // Every parameter has its values, the same on all ranks, and loses its memory here: see
  // ModuleAdapter, which `units_of_module` is for. `units` and `parameters` go together.
  ModuleSession(std::unique_ptr<GroupLinks> links, const Setup& setup,
                const std::vector<zero::UnitSpec>& units,
                const std::vector<std::vector<at::Tensor>>& parameters,
                ModuleAdapter::UnitsOfModule units_of_module);

  zero::Engine& engine() { return engine_; }
  ModuleAdapter& adapter() { return adapter_; }

  // A whole parameter: contiguous, of the parameter's size, of any type.
  struct Whole {
    int unit = 0;
    int parameter = 0;
    at::Tensor values;
  };
  // Copies what this rank owns of the fp32 master weights there; the other elements stay.
  void ReadOwned(const std::vector<Whole>& parameters);
  // Writes the elements that this rank owns and that differ from what the master is in their type:
  // what was not edited keeps its fp32 value. Returns whether there were any; then every rank calls
  // adapter().RefreshWeights().
  bool WriteOwned(const std::vector<Whole>& parameters);

 private:
  std::unique_ptr<GroupLinks> links_;
  zero::Engine engine_;
  ModuleAdapter adapter_;
};

}  // namespace thinwire::adapter
