// The LLaMA-type model over the ZeRO engine: which unit runs when, and the initial weights.
#pragma once

#include <ATen/core/Tensor.h>

#include "thinwire/torch/sharded_model.h"
#include "thinwire/train/llama.h"

namespace thinwire::train {

class ShardedLlama {
 public:
  struct Options {
    int64_t sequence_length = 0;
    bool activation_checkpointing = false;
  };

  // `engine` was planned with LlamaUnits(config) and outlives the model.
  ShardedLlama(const LlamaConfig& config, zero::Engine& engine, const Options& options);

  // One pass over tokens and targets, int64 [batch, sequence_length]. Returns this rank's loss.
  double Train(const at::Tensor& tokens, const at::Tensor& targets, bool last_micro_batch);
  double Evaluate(const at::Tensor& tokens, const at::Tensor& targets);

 private:
  at::Tensor Forward(const at::Tensor& tokens, const at::Tensor& targets);

  LlamaConfig config_;
  Options options_;
  Rotary rotary_;
  adapter::ShardedModel model_;
  at::Tensor embedding_;
  std::vector<BlockParameters> blocks_;
  HeadParameters head_;
};

// Writes the initial weights of everything this rank owns.
void FillOwned(const LlamaConfig& config, uint64_t seed, zero::Engine& engine);

}  // namespace thinwire::train
