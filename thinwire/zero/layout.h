// Where each parameter of a unit lies in its flat, and who owns which stretch of it.
// A function of (parameters, N, L) only, in elements.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/base/dtype.h"
#include "thinwire/comm/partition.h"
#include "thinwire/zero/unit.h"

namespace thinwire::zero {

// A flat is the matrix region (parameters of 2 and more dimensions, in order) followed by the
// vector region (the others), each contiguous and cut on its own.
struct ParameterPlace {
  bool matrix = true;
  int64_t offset = 0;  // elements from the start of the flat
  int64_t numel = 0;
  int group = 0;  // of optim::GroupSettings
};

struct UnitLayout {
  UnitSpec spec;
  std::vector<ParameterPlace> places;  // as spec.parameters
  comm::Partition matrix;
  comm::Partition vector;
  DType compute = DType::kBF16;  // of the flat and of its gradients

  int64_t flat_bytes() const { return numel() * SizeOf(compute); }
  int64_t numel() const { return matrix.size() + vector.size(); }
};

// `compute` is for units that do not say. Throws UsageError naming the parameter on a negative or
// overflowing shape or a name used twice.
std::vector<UnitLayout> MakeLayout(const std::vector<UnitSpec>& units, int hosts,
                                   int ranks_per_host, DType compute);

}  // namespace thinwire::zero
