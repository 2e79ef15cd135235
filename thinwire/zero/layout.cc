#include "thinwire/zero/layout.h"

#include <set>

#include "thinwire/base/checked.h"

namespace thinwire::zero {

std::vector<UnitLayout> MakeLayout(const std::vector<UnitSpec>& units, int hosts,
                                   int ranks_per_host, DType compute) {
  std::vector<UnitLayout> layouts;
  std::set<std::string> names;
  for (const UnitSpec& unit : units) {
    UnitLayout layout;
    layout.spec = unit;
    layout.compute = unit.compute.value_or(compute);
    std::vector<int64_t> matrix_sizes, vector_sizes;
    for (const ParameterSpec& parameter : unit.parameters) {
      if (!names.insert(parameter.name).second) {
        throw UsageError(StrCat("parameter ", parameter.name, " of unit ", unit.name,
                                " is there twice: give every parameter a name of its own"));
      }
      const int64_t numel = CheckedNumel(parameter.shape, parameter.name);
      const bool matrix = parameter.shape.size() >= 2;
      (matrix ? matrix_sizes : vector_sizes).push_back(numel);
      const int by_kind = matrix ? 0 : 1;
      const int group = parameter.group == kGroupByKind ? by_kind : parameter.group;
      layout.places.push_back({matrix, 0, numel, group});
    }
    layout.matrix = comm::Partition(matrix_sizes, hosts, ranks_per_host);
    layout.vector = comm::Partition(vector_sizes, hosts, ranks_per_host);
    int64_t matrix_at = 0, vector_at = layout.matrix.size();
    for (ParameterPlace& place : layout.places) {
      int64_t& at = place.matrix ? matrix_at : vector_at;
      place.offset = at;
      at += place.numel;
    }
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

}  // namespace thinwire::zero
