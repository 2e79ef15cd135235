// The torch adapter for native code: the parameters of each unit are views into one storage, whose
// data pointer is swapped between the engine's planned buffers and nothing; backward work hangs on
// autograd nodes and on the gradient accumulators of the parameters.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "thinwire/zero/engine.h"

namespace at {
class Tensor;
}

namespace thinwire::adapter {

class ShardedModel {
 public:
  // `engine` outlives the model and is driven by it: nobody else calls its pass functions.
  explicit ShardedModel(zero::Engine& engine);
  ~ShardedModel();
  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;

  // The parameter in compute dtype with its shape, requiring a gradient. Its values are there only
  // inside Run() of its unit and in that unit's part of backward. The tensor object stays the same
  // for the life of the model.
  const at::Tensor& parameter(int unit, int index) const;

  // One forward and, in training, one backward. In training `forward` returns the loss (a scalar
  // requiring grad), whose backward runs before the pass ends; in evaluation it runs without grad.
  // Returns the value of the loss.
  double TrainPass(bool last_micro_batch, const std::function<at::Tensor()>& forward);
  double EvaluatePass(const std::function<at::Tensor()>& forward);

  // Inside a pass: y = body(x) with the unit's parameters gathered. `x` may be any tensor, also one
  // that needs no grad (tokens). A unit may be used more than once in a pass (a tied head), then
  // without `checkpoint`.
  using Body = std::function<at::Tensor(const at::Tensor& x)>;
  struct Use {
    bool checkpoint = false;  // compute body again in backward instead of saving activations
    bool weights_in_backward = true;  // false where body's backward reads no weights (an embedding)
  };
  at::Tensor Run(int unit, const at::Tensor& x, const Body& body, Use use);
  // As the unit's spec says, without checkpoint.
  at::Tensor Run(int unit, const at::Tensor& x, const Body& body);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace thinwire::adapter
