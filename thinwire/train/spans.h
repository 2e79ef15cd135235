// Tensors as the spans that kernels take, and rows shared between torch's threads.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <span>

#include "thinwire/base/dtype.h"

namespace thinwire::train {

inline DType DTypeOf(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return DType::kF32;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kHalf:
      return DType::kF16;
    default:
      THINWIRE_CHECK(false, "tensor of dtype ", tensor.dtype().name());
  }
}

inline Array ArrayOf(const at::Tensor& tensor) {
  THINWIRE_CHECK(tensor.is_contiguous());
  return {static_cast<std::byte*>(tensor.data_ptr()), DTypeOf(tensor), tensor.numel()};
}

// `count` rows of `columns` elements from row `begin`.
inline Array RowsOf(const at::Tensor& tensor, int64_t columns, int64_t begin, int64_t count) {
  return ArrayOf(tensor).Sub(begin * columns, count * columns);
}

inline std::span<float> FloatsOf(const at::Tensor& tensor) { return ArrayOf(tensor).As<float>(); }

// body(begin, end) over [0, rows), in pieces of about 16k elements or more.
template <typename Body>
void ParallelRows(int64_t rows, int64_t columns, const Body& body) {
  at::parallel_for(0, rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(columns, 1)), body);
}

}  // namespace thinwire::train
