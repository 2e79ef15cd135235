#include "thinwire/train/sharded_llama.h"

namespace thinwire::train {

ShardedLlama::ShardedLlama(const LlamaConfig& config, zero::Engine& engine, const Options& options)
    : config_(config),
      options_(options),
      rotary_(options.sequence_length, config.head_dim(), config.rope_theta),
      model_(engine) {
  const ParameterOf parameter = [this](int unit, int index) {
    return model_.parameter(unit, index);
  };
  embedding_ = EmbeddingParameter(config_, parameter);
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    blocks_.push_back(BlockOf(config_, parameter, layer));
  }
  head_ = HeadOf(config_, parameter);
}

at::Tensor ShardedLlama::Forward(const at::Tensor& tokens, const at::Tensor& targets) {
  const LlamaUnitIndex unit = UnitIndex(config_);
  // The embedding's backward reads no weights, whoever else uses them.
  at::Tensor x = model_.Run(unit.embedding, tokens,
                            [this](const at::Tensor& t) { return Embed(embedding_, t); },
                            {.weights_in_backward = false});
  for (size_t layer = 0; layer < blocks_.size(); ++layer) {
    x = model_.Run(
        unit.first_block + static_cast<int>(layer), x,
        [this, layer](const at::Tensor& t) { return Block(config_, rotary_, blocks_[layer], t); },
        {.checkpoint = options_.activation_checkpointing});
  }
  return model_.Run(unit.head, x, [this, &targets](const at::Tensor& t) {
    return Loss(config_, head_, t, targets);
  });
}

double ShardedLlama::Train(const at::Tensor& tokens, const at::Tensor& targets,
                           bool last_micro_batch) {
  return model_.TrainPass(last_micro_batch, [&] { return Forward(tokens, targets); });
}

double ShardedLlama::Evaluate(const at::Tensor& tokens, const at::Tensor& targets) {
  return model_.EvaluatePass([&] { return Forward(tokens, targets); });
}

void FillOwned(const LlamaConfig& config, uint64_t seed, zero::Engine& engine) {
  for (const zero::OwnedStretch& owned : engine.Owned()) {
    const zero::UnitSpec& unit = engine.plan().units[static_cast<size_t>(owned.unit)].spec;
    FillInitial(config, seed, unit.parameters[static_cast<size_t>(owned.parameter)], owned.offset,
                owned.master);
  }
}

}  // namespace thinwire::train
