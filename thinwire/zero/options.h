// Everything about an engine that the user chooses. The same on every rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/dtype.h"
#include "thinwire/optim/loss_scaler.h"
#include "thinwire/optim/native.h"
#include "thinwire/optim/optimizer.h"

namespace thinwire::zero {

// Groups for kGroupByKind: matrices with `settings`, vectors with the same but for the decay.
inline std::vector<optim::GroupSettings> DecayMatricesOnly(optim::GroupSettings settings) {
  std::vector<optim::GroupSettings> groups{settings, settings};
  groups[1].weight_decay = 0;
  return groups;
}

struct EngineOptions {
  std::string recipe = "zero3";  // zero/recipe.h lists them
  // How long weights and gradients live, as ZeRO counts: 3 shards both, 2 keeps the weights of all
  // units on every rank from step to step, 1 also whole gradients until the last micro-batch.
  int stage = 3;
  DType compute =
      DType::kBF16;             // of gathered parameters and of gradients, where the unit is silent
  std::optional<DType> wire{};  // of the raw codec on each hop; unset: as the unit computes
  // Training passes per optimizer step. 0: whoever calls BeginPass decides, pass by pass.
  int micro_batches = 1;
  // Gradients are always averaged over ranks, and over the micro-batches of the step, too, unless
  // the caller weights their losses itself.
  bool average_micro_batches = true;
  int prefetch = 2;               // units gathered ahead of the one in use
  int64_t chunk_bytes = 4 << 20;  // a message carries at most about this many bytes
  float max_grad_norm = 1.0f;     // clipping by the global norm; 0 turns it off
  optim::OptimizerPtr optimizer = optim::MakeAdamW();
  // Settings of the parameter groups, unless a step brings its own; their lr is that of the step.
  std::vector<optim::GroupSettings> groups =
      DecayMatricesOnly({.weight_decay = 0.1f, .beta2 = 0.95f});
  optim::LossScaleOptions loss_scale{};  // where some unit computes in fp16
  // Where a recipe sends differences: each unit's full values once in so many steps, so that no
  // error outlives them. Each unit in a step of its own.
  int64_t full_weights_every = 512;
  bool checksum = false;                       // messages carry the CRC-32C of their payload
  std::chrono::milliseconds deadline{60'000};  // without progress or heartbeat of a peer
  // For the plan alone: over what the ranks of a host reach each other, and how many of them
  // through memory that they share. A rank's own affair.
  std::string near_link{};
  int near_peers = 0;
};

}  // namespace thinwire::zero
