#include "thinwire/torch/matmul_speed.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "thinwire/planner/cpu_time.h"
#include "thinwire/torch/dtype.h"

namespace thinwire::adapter {

double MatmulSpeed(int64_t tokens, int64_t from, int64_t to, DType dtype) {
  constexpr int64_t kMostTokens = 512, kMostExtent = 2048;
  constexpr int kRepeats = 3;
  const c10::AutoGradMode no_grad(false);
  tokens = std::clamp<int64_t>(tokens, 1, kMostTokens);
  from = std::clamp<int64_t>(from, 1, kMostExtent);
  to = std::clamp<int64_t>(to, 1, kMostExtent);
  const at::Tensor x = at::ones({tokens, from}, ScalarTypeOf(dtype));
  const at::Tensor w = at::ones({to, from}, ScalarTypeOf(dtype));
  at::linear(x, w);  // libraries prepare themselves at the first call
  double best = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    const double begin = planner::ThreadCpuSeconds();
    at::linear(x, w);
    best = std::min(best, planner::ThreadCpuSeconds() - begin);
  }
  return 2.0 * static_cast<double>(tokens * from * to) / std::max(best, 1e-9);
}

}  // namespace thinwire::adapter
