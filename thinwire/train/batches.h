// Which samples a rank sees at a step. A step's samples are numbered through all ranks and
// micro-batches, so that ranks x micro-batches may change without changing what a step sees.
#pragma once

#include <ATen/core/Tensor.h>

#include "thinwire/train/data.h"

namespace thinwire::train {

struct BatchShape {
  int64_t rank = 0;
  int64_t world = 1;
  int64_t micro_batch = 1;    // sequences
  int64_t micro_batches = 1;  // per step
  int64_t sequence_length = 1;

  int64_t samples_per_step() const { return world * micro_batch * micro_batches; }
  int64_t tokens_per_step() const { return samples_per_step() * sequence_length; }
};

class Batches {
 public:
  Batches(const Sampler& sampler, const BatchShape& shape);

  // Fills tokens() and targets(), int64 [micro_batch, sequence_length]; step counts from 0.
  void Load(int64_t step, int64_t micro);
  const at::Tensor& tokens() const { return tokens_; }
  const at::Tensor& targets() const { return targets_; }

 private:
  const Sampler& sampler_;
  BatchShape shape_;
  at::Tensor tokens_;
  at::Tensor targets_;
};

}  // namespace thinwire::train
