// The tensors of one unit: views into one storage without memory of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "thinwire/zero/layout.h"

namespace thinwire::adapter {

// Tensors of the unit's type, with the shapes and places of its parameters in its flat.
class UnitTensors {
 public:
  explicit UnitTensors(const zero::UnitLayout& unit);

  const at::Tensor& tensor(size_t parameter) const { return tensors_[parameter]; }
  size_t size() const { return tensors_.size(); }

  // Lets all tensors read and write the flat at `data`; null takes the memory away. Versions do not
  // change: it is the caller's word that saved tensors will find the same values.
  void Point(std::byte* data);
  // Tells autograd that the values are new.
  void BumpVersions();

 private:
  c10::Storage storage_;
  std::vector<at::Tensor> tensors_;
};

}  // namespace thinwire::adapter
