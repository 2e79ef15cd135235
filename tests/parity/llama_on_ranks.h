// A small LLaMA for the parity tests: its data, one pass of it over an engine, and the ranks as
// threads.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <functional>
#include <vector>

#include "thinwire/base/random.h"
#include "thinwire/torch/sharded_model.h"
#include "thinwire/train/sharded_llama.h"
#include "thinwire/transport/in_process_board.h"
#include "thinwire/transport/thread_ranks.h"

namespace thinwire::parity {

using at::Tensor;

constexpr int64_t kSequence = 12, kBatch = 2;
constexpr uint64_t kSeed = 7;

inline train::LlamaConfig SmallLlama(bool tie_head) {
  return {.vocab_size = 61,
          .hidden = 32,
          .layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .intermediate = 40,
          .tie_head = tie_head};
}

inline float LearningRate(int64_t step) { return 3e-3f / static_cast<float>(1 + step / 4); }

struct Sample {
  Tensor tokens, targets;  // int64 [batch, sequence]
};

inline Sample SampleOf(const train::LlamaConfig& config, int rank, int64_t step, int micro) {
  const CounterRandom random(
      HashBytes("tokens", static_cast<uint64_t>(rank * 10000 + step * 10 + micro)));
  std::vector<int64_t> text(static_cast<size_t>(kBatch * kSequence + 1));
  // Every second token repeats the one before, so that there is something to learn.
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<int64_t>(random.Bits(i / 2) % static_cast<uint64_t>(config.vocab_size));
  }
  const auto from = [&](size_t first) {
    return at::from_blob(text.data() + first, {kBatch, kSequence}, at::kLong).clone();
  };
  return {from(0), from(1)};
}

// Called inside each unit's body, where its parameters are there.
using Look = std::function<void(int unit, const Tensor& first_parameter)>;

// The model as train::ShardedLlama runs it, but with a look into the bodies.
class LlamaOnRank {
 public:
  LlamaOnRank(const train::LlamaConfig& config, zero::Engine& engine, bool checkpoint, Look look)
      : config_(config),
        rotary_(kSequence, config.head_dim(), config.rope_theta),
        checkpoint_(checkpoint),
        look_(std::move(look)),
        model_(engine) {
    train::FillOwned(config, kSeed, engine);
    engine.RefreshWeights(0);
  }

  double Train(const Sample& sample, bool last_micro_batch) {
    return model_.TrainPass(last_micro_batch, [&] { return Forward(sample); });
  }
  double Evaluate(const Sample& sample) {
    return model_.EvaluatePass([&] { return Forward(sample); });
  }

 private:
  Tensor Forward(const Sample& sample) {
    const train::LlamaUnitIndex unit = train::UnitIndex(config_);
    const train::ParameterOf parameter = [this](int u, int i) { return model_.parameter(u, i); };
    Tensor x =
        model_.Run(unit.embedding, sample.tokens,
                   Looking(unit.embedding,
                           [&](const Tensor& t) {
                             return train::Embed(train::EmbeddingParameter(config_, parameter), t);
                           }),
                   {.weights_in_backward = false});
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      const int u = unit.first_block + static_cast<int>(layer);
      x = model_.Run(u, x,
                     Looking(u,
                             [this, layer](const Tensor& t) {
                               const train::ParameterOf of = [this](int v, int i) {
                                 return model_.parameter(v, i);
                               };
                               return train::Block(config_, rotary_,
                                                   train::BlockOf(config_, of, layer), t);
                             }),
                     {.checkpoint = checkpoint_});
    }
    return model_.Run(unit.head, x, Looking(unit.head, [&](const Tensor& t) {
                        return train::Loss(config_, train::HeadOf(config_, parameter), t,
                                           sample.targets);
                      }));
  }

  adapter::ShardedModel::Body Looking(int unit, adapter::ShardedModel::Body body) {
    return [this, unit, body = std::move(body)](const Tensor& x) {
      look_(unit, model_.parameter(unit, 0));
      return body(x);
    };
  }

  const train::LlamaConfig config_;
  const train::Rotary rotary_;
  const bool checkpoint_;
  const Look look_;
  adapter::ShardedModel model_;
};

// body(rank, engine) on hosts x locals threads, each with its engine.
inline void OnRanks(const train::LlamaConfig& config, int hosts, int locals,
                    const zero::EngineOptions& options,
                    const std::function<void(int rank, zero::Engine& engine)>& body) {
  transport::ThreadFabric bulk(hosts * locals), control(hosts * locals);
  transport::InProcessBoard board(hosts * locals);
  transport::RunRanks({&bulk, &control}, [&](int rank) {
    zero::Engine engine(
        zero::MakePlan(train::LlamaUnits(config), comm::Topology(hosts, locals, rank), options),
        {bulk.transport(rank), control.transport(rank), board});
    body(rank, engine);
  });
}

}  // namespace thinwire::parity
