// thinwire's element types as torch's.
#pragma once

#include <c10/core/ScalarType.h>

#include "thinwire/base/dtype.h"

namespace thinwire::adapter {

inline at::ScalarType ScalarTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return at::kFloat;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kF16:
      return at::kHalf;
  }
  return at::kFloat;
}

}  // namespace thinwire::adapter
