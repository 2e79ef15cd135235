// Sharded training of a LLaMA-type model against plain torch in one process.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "tests/parity/llama_reference.h"

namespace thinwire::parity {
namespace {

constexpr int64_t kSteps = 20;

struct Case {
  int hosts, locals;
  std::string recipe;
  int micro_batches;
  bool checkpoint;
  bool tie_head;
};

zero::EngineOptions Options(const Case& c, DType dtype) {
  return {.recipe = c.recipe,
          .compute = dtype,
          .wire = dtype,
          .micro_batches = c.micro_batches,
          .prefetch = 1,
          .chunk_bytes = 4096,  // several messages per unit and hop
          .max_grad_norm = 0.4f};
}

// train(sample, last micro-batch) once per micro-batch; the rank's loss.
double TrainStep(const Case& c, int rank, int64_t step,
                 const std::function<double(const Sample&, bool)>& train) {
  double loss = 0;
  for (int micro = 0; micro < c.micro_batches; ++micro) {
    loss +=
        train(SampleOf(SmallLlama(c.tie_head), rank, step, micro), micro + 1 == c.micro_batches);
  }
  return loss / c.micro_batches;
}

// Losses and norms by step, and the weights after the last one.
struct Expected {
  explicit Expected(const Case& c)
      : reference(SmallLlama(c.tie_head), c.hosts, c.locals, Options(c, DType::kF32)) {
    for (int64_t step = 0; step < kSteps; ++step) steps.push_back(reference.Step(step));
  }

  LlamaReference reference;
  std::vector<ReferenceStep> steps;
};

void ExpectBitwise(const Case& c, const Expected& expected) {
  const train::LlamaConfig config = SmallLlama(c.tie_head);
  const zero::EngineOptions options = Options(c, DType::kF32);
  OnRanks(config, c.hosts, c.locals, options, [&](int rank, zero::Engine& engine) {
    train::FillOwned(config, kSeed, engine);
    engine.RefreshWeights(0);
    train::ShardedLlama model(
        config, engine, {.sequence_length = kSequence, .activation_checkpointing = c.checkpoint});
    for (int64_t step = 0; step < kSteps; ++step) {
      const double loss = TrainStep(c, rank, step, [&](const Sample& sample, bool last) {
        return model.Train(sample.tokens, sample.targets, last);
      });
      const zero::StepResult result = engine.Step({.lr = LearningRate(step), .loss = loss});
      const ReferenceStep& reference = expected.steps[static_cast<size_t>(step)];
      ASSERT_EQ(result.loss, reference.loss) << "step " << step << " rank " << rank;
      ASSERT_EQ(result.grad_norm, reference.grad_norm) << "step " << step << " rank " << rank;
    }
    for (const zero::OwnedStretch& owned : engine.Owned()) {
      const zero::UnitLayout& unit = engine.plan().units[static_cast<size_t>(owned.unit)];
      const auto parameter = static_cast<size_t>(owned.parameter);
      const auto first = static_cast<size_t>(unit.places[parameter].offset + owned.offset);
      const auto weights =
          expected.reference.weights(owned.unit).subspan(first, owned.master.size());
      for (size_t i = 0; i < weights.size(); ++i) {
        ASSERT_EQ(owned.master[i], weights[i])
            << unit.spec.parameters[parameter].name << " from " << owned.offset << " element " << i;
      }
    }
  });
}

// A test per (N, L) rather than per case: loading torch takes longer than a case.
class LlamaBitwise : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(LlamaBitwise, EqualsPlainTorchThatSumsInTheSameOrder) {
  const auto [hosts, locals] = GetParam();
  at::set_num_threads(1);
  std::vector<Case> cases;
  if (hosts == 2 && locals == 2) {
    for (const char* recipe : {"zero3", "hpz"}) {
      for (const int micro_batches : {1, 2}) {
        for (const bool checkpoint : {false, true}) {
          for (const bool tied : {false, true}) {
            cases.push_back({hosts, locals, recipe, micro_batches, checkpoint, tied});
          }
        }
      }
    }
  } else {  // every pair of recipe, accumulation and checkpointing
    const bool tied = hosts % 2 == 0;
    cases = {{hosts, locals, "zero3", 1, false, tied},
             {hosts, locals, "zero3", 2, true, !tied},
             {hosts, locals, "hpz", 1, true, tied},
             {hosts, locals, "hpz", 2, false, !tied}};
  }
  std::map<std::pair<int, bool>, Expected> expected;  // the recipe must not matter, nor checkpoints
  for (const Case& c : cases) {
    SCOPED_TRACE(StrCat(c.recipe, ", ", c.micro_batches, " micro-batches",
                        c.checkpoint ? ", checkpointed" : "", c.tie_head ? ", tied" : ""));
    const auto [place, made] = expected.try_emplace({c.micro_batches, c.tie_head}, c);
    const auto clips = [&](const ReferenceStep& step) {
      return step.grad_norm > Options(c, DType::kF32).max_grad_norm;
    };
    EXPECT_TRUE(std::ranges::any_of(place->second.steps, clips));  // so that clipping is tested
    ExpectBitwise(c, place->second);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LlamaBitwise,
                         testing::Values(std::pair(1, 1), std::pair(1, 4), std::pair(2, 1),
                                         std::pair(2, 2), std::pair(3, 2), std::pair(2, 3),
                                         std::pair(4, 2)),
                         [](const auto& test) {
                           return StrCat(test.param.first, "x", test.param.second);
                         });

struct Trained {
  std::vector<double> losses;                  // by step
  std::vector<std::vector<uint64_t>> weights;  // by step: a hash per unit
};

// Trains and hashes the storage of every unit in every body; fails unless it is the same wherever
// and whenever a step uses it.
Trained Train(const Case& c, DType dtype) {
  const train::LlamaConfig config = SmallLlama(c.tie_head);
  Trained trained;
  std::mutex mutex;
  std::map<std::pair<int64_t, int>, uint64_t> seen;  // by step and unit
  OnRanks(config, c.hosts, c.locals, Options(c, dtype), [&](int rank, zero::Engine& engine) {
    int64_t step = 0;
    int64_t looks = 0;
    LlamaOnRank model(config, engine, c.checkpoint, [&](int u, const Tensor& parameter) {
      const zero::UnitLayout& unit = engine.plan().units[static_cast<size_t>(u)];
      const at::Storage& storage = parameter.storage();
      const uint64_t hash =
          HashBytes({static_cast<const char*>(storage.data()),
                     static_cast<size_t>(unit.numel() * SizeOf(engine.plan().options.compute))});
      ++looks;
      const std::lock_guard lock(mutex);
      const auto [place, first] = seen.try_emplace({step, u}, hash);
      EXPECT_EQ(place->second, hash) << "step " << step << " unit " << u << " rank " << rank;
    });
    for (; step < kSteps; ++step) {
      const double loss = TrainStep(c, rank, step, [&](const Sample& sample, bool last) {
        return model.Train(sample, last);
      });
      const zero::StepResult result = engine.Step({.lr = LearningRate(step), .loss = loss});
      if (rank == 0) trained.losses.push_back(result.loss);
    }
    model.Evaluate(SampleOf(config, rank, step, 0));
    // Embedding, blocks and head, the blocks again where they are computed again in backward.
    const int64_t per_pass = 2 + config.layers * (c.checkpoint ? 2 : 1);
    EXPECT_EQ(looks, kSteps * c.micro_batches * per_pass + 2 + config.layers);
  });
  for (const auto& [at, hash] : seen) {
    trained.weights.resize(static_cast<size_t>(at.first) + 1);
    trained.weights.back().push_back(hash);
  }
  return trained;
}

TEST(LlamaInBf16, WeightsAreTheSameBitsOnAllRanksAndInBothRecipes) {
  at::set_num_threads(1);
  for (const bool several : {false, true}) {
    const Case c{2, 2, "zero3", several ? 2 : 1, several, several};
    Case kept = c;
    kept.recipe = "hpz";
    const Trained plain = Train(c, DType::kBF16), hpz = Train(kept, DType::kBF16);
    EXPECT_EQ(plain.losses, hpz.losses);
    EXPECT_EQ(plain.weights, hpz.weights);
    // Every step changed every unit.
    for (size_t step = 1; step < plain.weights.size(); ++step) {
      for (size_t u = 0; u < plain.weights[step].size(); ++u) {
        EXPECT_NE(plain.weights[step][u], plain.weights[step - 1][u]) << step << " " << u;
      }
    }
  }
}

TEST(LlamaInBf16, LossesStayCloseToFp32) {
  at::set_num_threads(1);
  const Case c{2, 2, "hpz", 1, false, false};
  const Trained full = Train(c, DType::kF32), half = Train(c, DType::kBF16);
  EXPECT_LT(full.losses.back(),
            full.losses.front() - 0.2);  // it learns, so the bound says something
  for (size_t step = 0; step < full.losses.size(); ++step) {
    // bf16 keeps 8 bits: 1/256 of a loss that starts at log(61).
    EXPECT_NEAR(half.losses[step], full.losses[step], full.losses[step] / 256) << "step " << step;
  }
}

}  // namespace
}  // namespace thinwire::parity
