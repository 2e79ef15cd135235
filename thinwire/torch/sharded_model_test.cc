#include "thinwire/torch/sharded_model.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "thinwire/base/random.h"
#include "thinwire/kernels/adamw.h"
#include "thinwire/transport/in_process_board.h"
#include "thinwire/transport/thread_ranks.h"

namespace thinwire::adapter {
namespace {

using at::Tensor;

constexpr int64_t kVocab = 11, kWidth = 24, kBatch = 6;

// Tied: unit 0 embeds and also makes the logits; units 1 and 2 are blocks; unit 3 is never used.
std::vector<zero::UnitSpec> Units() {
  return {{"root", {{"embed", {kVocab, kWidth}}, {"scale", {kWidth}}}},
          {"block0",
           {{"b0.w", {kWidth, 3 * kWidth}}, {"b0.v", {3 * kWidth, kWidth}}, {"b0.bias", {kWidth}}}},
          {"block1",
           {{"b1.w", {kWidth, 3 * kWidth}}, {"b1.v", {3 * kWidth, kWidth}}, {"b1.bias", {kWidth}}}},
          {"unused", {{"unused.w", {3, 5}}}}};
}

Tensor Tokens(int rank, int64_t step, int micro) {
  std::vector<int64_t> tokens(kBatch);
  const CounterRandom random(
      HashBytes("tokens", static_cast<uint64_t>(rank * 1000 + step * 10 + micro)));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int64_t>(random.Bits(i) % kVocab);
  return at::from_blob(tokens.data(), {kBatch}, at::kLong).clone();
}

Tensor Embed(const Tensor& w, const Tensor& x) { return at::embedding(w, x); }
Tensor Block(const Tensor& w, const Tensor& v, const Tensor& bias, const Tensor& x) {
  return x + at::matmul(at::tanh(at::matmul(x, w)), v) + bias;
}
Tensor Loss(const Tensor& w, const Tensor& scale, const Tensor& x) {
  return at::matmul(x * scale, w.t()).pow(2).mean();
}

float Initial(const std::string& name, int64_t i) {
  return 0.2f * static_cast<float>(CounterRandom(HashBytes(name)).Normal(static_cast<uint64_t>(i)));
}

struct Case {
  int hosts, locals;
  std::string recipe;
  int micro_batches;
  bool checkpoint;
};

zero::EngineOptions Options(const Case& c) {
  return {.recipe = c.recipe,
          .compute = DType::kF32,
          .wire = DType::kF32,
          .micro_batches = c.micro_batches,
          .prefetch = 1,
          .max_grad_norm = 0};
}

// Losses by step and rank, then the weights, of a single process.
class Reference {
 public:
  explicit Reference(const Case& c) : c_(c) {
    for (const auto& unit : Units()) {
      for (const auto& p : unit.parameters) {
        int64_t numel = 1;
        for (const int64_t e : p.shape) numel *= e;
        Tensor w = at::zeros_like(at::from_blob(&numel, {1}, at::kFloat))
                       .expand(p.shape)
                       .contiguous()
                       .clone();
        for (int64_t i = 0; i < numel; ++i) w.data_ptr<float>()[i] = Initial(p.name, i);
        weights.push_back(w.set_requires_grad(true));
        m_.push_back(at::zeros_like(w));
        v_.push_back(at::zeros_like(w));
      }
    }
  }

  double Step(int64_t step) {
    std::vector<Tensor> total(weights.size());
    double loss_sum = 0;
    for (int h = 0; h < c_.hosts; ++h) {
      std::vector<Tensor> host(weights.size());
      std::vector<double> rank_loss(static_cast<size_t>(c_.locals));
      for (int micro = 0; micro < c_.micro_batches; ++micro) {
        for (int l = 0; l < c_.locals; ++l) {
          const int rank = h * c_.locals + l;
          const auto& w = weights;
          Tensor x = Embed(w[0], Tokens(rank, step, micro));
          x = Block(w[2], w[3], w[4], x);
          x = Block(w[5], w[6], w[7], x);
          const Tensor loss = Loss(w[0], w[1], x);
          torch::autograd::backward({loss});
          rank_loss[static_cast<size_t>(l)] += loss.item().toDouble();
          for (size_t p = 0; p < weights.size(); ++p) Add(host[p], weights[p].mutable_grad(), p);
        }
      }
      for (const double loss : rank_loss) loss_sum += loss / c_.micro_batches;
      for (size_t p = 0; p < weights.size(); ++p) Add(total[p], host[p], p);
    }
    for (size_t p = 0; p < weights.size(); ++p) {
      if (!total[p].defined()) continue;
      const Tensor mean = (total[p] / (c_.hosts * c_.locals * c_.micro_batches)).contiguous();
      const auto span = [](const Tensor& t) {
        return std::span<float>(t.data_ptr<float>(), static_cast<size_t>(t.numel()));
      };
      kernels::AdamW(
          {}, {.lr = 1e-2f, .weight_decay = weights[p].dim() > 1 ? 0.1f : 0.0f, .step = step + 1},
          span(mean), span(weights[p]), span(m_[p]), span(v_[p]));
    }
    return loss_sum / (c_.hosts * c_.locals);
  }

  std::vector<Tensor> weights;

 private:
  void Add(Tensor& sum, Tensor& gradient, size_t) {
    if (!gradient.defined()) return;
    sum = sum.defined() ? (sum + gradient).detach() : gradient.detach().clone();
    gradient.reset();
  }

  Case c_;
  std::vector<Tensor> m_, v_;
};

class ShardedModelBitwise : public testing::TestWithParam<Case> {};

TEST_P(ShardedModelBitwise, EqualsPlainTorchInOneProcess) {
  const Case c = GetParam();
  at::set_num_threads(1);
  const int world = c.hosts * c.locals;
  constexpr int64_t kSteps = 4;
  Reference reference(c);
  std::vector<double> losses;
  for (int64_t step = 0; step < kSteps; ++step) losses.push_back(reference.Step(step));

  transport::ThreadFabric bulk(world), control(world);
  transport::InProcessBoard board(world);
  transport::RunRanks({&bulk, &control}, [&](int rank) {
    zero::Engine engine(
        zero::MakePlan(Units(), comm::Topology(c.hosts, c.locals, rank), Options(c)),
        {bulk.transport(rank), control.transport(rank), board});
    for (const zero::OwnedStretch& owned : engine.Owned()) {
      const auto& spec = engine.plan().units[static_cast<size_t>(owned.unit)].spec;
      for (size_t i = 0; i < owned.master.size(); ++i) {
        owned.master[i] = Initial(spec.parameters[static_cast<size_t>(owned.parameter)].name,
                                  owned.offset + static_cast<int64_t>(i));
      }
    }
    engine.RefreshWeights(0);
    ShardedModel model(engine);
    const auto forward = [&](const Tensor& tokens) {
      Tensor x =
          model.Run(0, tokens, [&](const Tensor& t) { return Embed(model.parameter(0, 0), t); },
                    {.weights_in_backward = false});
      for (const int u : {1, 2}) {
        x = model.Run(u, x,
                      [&model, u](const Tensor& t) {
                        return Block(model.parameter(u, 0), model.parameter(u, 1),
                                     model.parameter(u, 2), t);
                      },
                      {.checkpoint = c.checkpoint});
      }
      return model.Run(0, x, [&](const Tensor& t) {
        return Loss(model.parameter(0, 0), model.parameter(0, 1), t);
      });
    };
    for (int64_t step = 0; step < kSteps; ++step) {
      double loss = 0;
      for (int micro = 0; micro < c.micro_batches; ++micro) {
        const Tensor tokens = Tokens(rank, step, micro);
        loss += model.TrainPass(micro + 1 == c.micro_batches, [&] { return forward(tokens); });
        EXPECT_EQ(model.parameter(1, 0).data_ptr(), nullptr);
      }
      const zero::StepResult result = engine.Step({.lr = 1e-2f, .loss = loss / c.micro_batches});
      EXPECT_EQ(result.loss, losses[static_cast<size_t>(step)]);
    }
    std::vector<size_t> first{0, 2, 5, 8};  // index of each unit's first parameter
    for (const zero::OwnedStretch& owned : engine.Owned()) {
      if (owned.unit == 3) continue;
      const Tensor& w = reference.weights[first[static_cast<size_t>(owned.unit)] +
                                          static_cast<size_t>(owned.parameter)];
      for (size_t i = 0; i < owned.master.size(); ++i) {
        ASSERT_EQ(owned.master[i], w.data_ptr<float>()[owned.offset + static_cast<int64_t>(i)])
            << "unit " << owned.unit << " parameter " << owned.parameter << " element " << i;
      }
    }
    // Evaluation leaves no trace.
    const double eval = model.EvaluatePass([&] { return forward(Tokens(rank, 99, 0)); });
    EXPECT_TRUE(std::isfinite(eval));
  });
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const auto& [hosts, locals] :
       std::vector<std::pair<int, int>>{{1, 1}, {1, 4}, {2, 1}, {2, 2}, {3, 2}}) {
    for (const char* recipe : {"zero3", "hpz"}) {
      cases.push_back({hosts, locals, recipe, 1, false});
      cases.push_back({hosts, locals, recipe, 2, true});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, ShardedModelBitwise, testing::ValuesIn(Cases()),
                         [](const auto& test) {
                           const Case& c = test.param;
                           return StrCat(c.recipe, "_", c.hosts, "x", c.locals, "_micro",
                                         c.micro_batches, c.checkpoint ? "_checkpointed" : "");
                         });

}  // namespace
}  // namespace thinwire::adapter
