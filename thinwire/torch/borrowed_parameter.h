// A parameter of the user's whose values live in the engine's memory while its unit is gathered and
// nowhere else. The tensor object stays the user's: identity, ties, hooks and optimizers that refer
// to it are not touched.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace thinwire::adapter {

class BorrowedParameter {
 public:
  // Takes `parameter` over as a tensor of `type` without values; what memory it had is given back.
  BorrowedParameter(at::Tensor parameter, const std::string& name, at::ScalarType type);

  const at::Tensor& tensor() const { return parameter_; }
  const std::string& name() const { return name_; }
  const std::vector<int64_t>& shape() const { return shape_; }

  // Its values are at `data` until the next call. Autograd's version does not change: it is the
  // caller's word that tensors saved for backward will find the same values.
  void Point(std::byte* data);
  // It has no values: whoever reads or writes it gets an error that names it, in place of a crash.
  void Release();
  // Until TakeBack() its values are those of `values` (contiguous, of its type and size), whatever
  // Point() and Release() say.
  void Lend(const at::Tensor& values);
  void TakeBack();
  // Tells autograd that the values are new.
  void BumpVersion();

 private:
  at::Tensor parameter_;
  std::string name_;
  std::vector<int64_t> shape_;
  // Of its own, so that saved tensors, which hold it, come back with the parameter, and so that an
  // error can name the parameter.
  c10::Storage storage_;
  at::Tensor lent_;
};

}  // namespace thinwire::adapter
