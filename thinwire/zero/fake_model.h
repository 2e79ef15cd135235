// A model without torch, for tests: its gradients are an arithmetic function of the weights, the
// rank, the step and the micro-batch, so that a single process can compute what W ranks must get.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "thinwire/base/dtype.h"
#include "thinwire/base/random.h"
#include "thinwire/kernels/adamw.h"
#include "thinwire/kernels/convert.h"
#include "thinwire/kernels/sum.h"
#include "thinwire/optim/clip.h"
#include "thinwire/zero/engine.h"

namespace thinwire::zero {

inline std::vector<UnitSpec> FakeUnits() {
  return {
      {"embed", {{"embed.w", {37, 16}}}, false},
      {"layer0", {{"l0.a", {64, 48}}, {"l0.norm", {48}}, {"l0.b", {17, 3, 5}}, {"l0.bias", {1}}}},
      {"layer1",
       {{"l1.a", {129, 33}}, {"l1.norm", {257}}, {"l1.empty", {0, 4}}, {"l1.c", {2, 3, 4, 5}}}},
      {"layer2", {{"l2.only_vector", {1031}}}},
      {"root", {{"root.norm", {16}}, {"root.head", {1, 1}}}},
  };
}

inline float InitialValue(const std::string& name, int64_t index) {
  return static_cast<float>(CounterRandom(HashBytes(name)).Normal(static_cast<uint64_t>(index))) *
         0.1f;
}

// The gradient of one element; `w` is the gathered weight.
inline float FakeGradient(float w, int unit, int64_t element, int rank, int64_t step, int micro) {
  const uint64_t key = HashBytes(
      "gradient", static_cast<uint64_t>(unit) * 1000003u + static_cast<uint64_t>(rank) * 10007u +
                      static_cast<uint64_t>(step) * 101u + static_cast<uint64_t>(micro));
  const float noise =
      static_cast<float>(CounterRandom(key).Uniform(static_cast<uint64_t>(element))) - 0.5f;
  return w * 0.3f + noise;
}

inline float FakeLoss(int rank, int64_t step) {
  return static_cast<float>(step) + 0.1f * static_cast<float>(rank);
}
inline float FakeLr(int64_t step) { return 1e-2f / static_cast<float>(1 + step); }

// Fills the master weights that `engine` owns and shows them to all ranks. Without a loss scale,
// unless another is given: the gradients here are large.
inline void InitializeFake(Engine& engine, double loss_scale = 1) {
  for (const OwnedStretch& owned : engine.Owned()) {
    const auto& spec = engine.plan().units[static_cast<size_t>(owned.unit)].spec;
    for (size_t i = 0; i < owned.master.size(); ++i) {
      owned.master[i] = InitialValue(spec.parameters[static_cast<size_t>(owned.parameter)].name,
                                     owned.offset + static_cast<int64_t>(i));
    }
  }
  engine.RefreshWeights(OptimizerProgress{.steps = 0, .loss_scale = {.scale = loss_scale}});
}

// How a pass differs from that of a plain model.
struct FakeTwist {
  std::vector<uint64_t>* weights_seen = nullptr;  // gets a hash of every gathered flat
  // Whether a rank leaves a unit out of its forward or its backward.
  std::function<bool(int rank, int64_t step, int unit, bool backward)> skips =
      [](int, int64_t, int, bool) { return false; };
  std::optional<float> gradient{};  // of every element, in place of FakeGradient
  std::function<float(int unit, int64_t element)> fixed{};  // where set: the gradient of each
  // What an element's gradient is multiplied with: 0 for rows that nobody looks up.
  std::function<float(int64_t step, int unit, int64_t element)> weight = [](int64_t, int, int64_t) {
    return 1.0f;
  };
  // Parameters of a unit that get no gradient.
  std::function<std::vector<int>(int rank, int64_t step, int unit)> missing =
      [](int, int64_t, int) { return std::vector<int>(); };
  // Added to the first gradient of a unit.
  std::function<float(int rank, int64_t step, int unit)> poison = [](int, int64_t, int) {
    return 0.0f;
  };
};

// One pass in the order of a plain model.
inline void FakePass(Engine& engine, int rank, int64_t step, int micro, bool last,
                     const FakeTwist& twist = {}) {
  const Plan& plan = engine.plan();
  std::vector<std::vector<float>> values(plan.units.size());
  const auto look = [&](int u) {
    const UnitLayout& unit = plan.units[static_cast<size_t>(u)];
    const std::byte* data = engine.Acquire(u);
    auto& floats = values[static_cast<size_t>(u)];
    floats.resize(static_cast<size_t>(unit.numel()));
    kernels::Convert({}, ConstArray(data, unit.compute, unit.numel()),
                     Array(std::span<float>(floats)));
    if (twist.weights_seen) {
      twist.weights_seen->push_back(
          HashBytes({reinterpret_cast<const char*>(data), static_cast<size_t>(unit.flat_bytes())}));
    }
    engine.Release(u);
  };
  engine.BeginPass(PassKind::kTrain, last);
  const int units = static_cast<int>(plan.units.size());
  for (int u = 0; u < units; ++u) {
    if (!twist.skips(rank, step, u, false)) look(u);
  }
  for (int u = units - 1; u >= 0; --u) {
    if (twist.skips(rank, step, u, true)) continue;
    const UnitLayout& unit = plan.units[static_cast<size_t>(u)];
    if (unit.spec.weights_in_backward) look(u);
    if (!unit.spec.trainable) continue;
    std::vector<float> gradient(static_cast<size_t>(unit.numel()));
    for (size_t i = 0; i < gradient.size(); ++i) {
      if (twist.fixed) {
        gradient[i] = twist.fixed(u, static_cast<int64_t>(i));
        continue;
      }
      gradient[i] =
          twist.gradient.value_or(FakeGradient(values[static_cast<size_t>(u)][i], u,
                                               static_cast<int64_t>(i), rank, step, micro)) *
          twist.weight(step, u, static_cast<int64_t>(i)) * static_cast<float>(engine.loss_scale());
    }
    if (!gradient.empty()) gradient[0] += twist.poison(rank, step, u);
    const std::vector<int> missing = twist.missing(rank, step, u);
    for (const int p : missing) {
      const ParameterPlace& place = unit.places[static_cast<size_t>(p)];
      std::ranges::fill(std::span(gradient).subspan(static_cast<size_t>(place.offset),
                                                    static_cast<size_t>(place.numel)),
                        0.0f);
    }
    kernels::Convert({}, ConstArray(std::span<const float>(gradient)),
                     Array(engine.GradientBuffer(u), unit.compute, unit.numel()));
    engine.ReduceGradients(u, missing);
  }
  engine.EndPass();
}

// What N x L ranks must compute, in one process: locals summed in index order, then micro-batches
// (at stage 1 micro-batches first), then hosts, the mean by one division, norms per shard in owner
// order. Flats of the layout.
class Reference {
 public:
  Reference(const Plan& plan_of_any_rank, int hosts, int ranks_per_host)
      : plan_(plan_of_any_rank), hosts_(hosts), locals_(ranks_per_host) {
    for (const UnitLayout& unit : plan_.units) {
      std::vector<float> flat(static_cast<size_t>(unit.numel()));
      for (size_t p = 0; p < unit.places.size(); ++p) {
        for (int64_t i = 0; i < unit.places[p].numel; ++i) {
          flat[static_cast<size_t>(unit.places[p].offset + i)] =
              InitialValue(unit.spec.parameters[p].name, i);
        }
      }
      m_.push_back(std::vector<float>(flat.size()));
      v_.push_back(m_.back());
      master_.push_back(std::move(flat));
    }
  }

  const std::vector<std::vector<float>>& master() const { return master_; }
  // Whose gradient is zero.
  std::function<bool(int rank, int64_t step, int unit)> no_gradient = [](int, int64_t, int) {
    return false;
  };

  double Step(int64_t step) {
    std::vector<std::vector<float>> gradients;
    for (size_t u = 0; u < master_.size(); ++u) gradients.push_back(Reduced(u, step));
    const double norm = Norm(gradients);
    const float scale =
        static_cast<float>(optim::ClipCoefficient(norm, plan_.options.max_grad_norm));
    for (size_t u = 0; u < master_.size(); ++u) {
      if (plan_.units[u].spec.trainable) Update(u, gradients[u], step, scale);
    }
    return norm;
  }

 private:
  std::vector<float> Reduced(size_t u, int64_t step) const {
    const size_t n = master_[u].size();
    std::vector<float> total(n);
    for (int host = 0; host < hosts_; ++host) {
      std::vector<float> host_sum(n);
      // A term is what one fast hop brings: all micro-batches of a rank at stage 1, else one.
      const int micro_batches = plan_.options.micro_batches;
      const int together = plan_.options.stage == 1 ? micro_batches : 1;
      for (int first = 0; first < micro_batches; first += together) {
        for (int local = 0; local < locals_; ++local) {
          for (size_t i = 0; i < n; ++i) {
            float term = Gradient(u, i, host * locals_ + local, step, first);
            for (int micro = first + 1; micro < first + together; ++micro) {
              term += Gradient(u, i, host * locals_ + local, step, micro);
            }
            host_sum[i] = first == 0 && local == 0 ? term : host_sum[i] + term;
          }
        }
      }
      for (size_t i = 0; i < n; ++i) total[i] = host == 0 ? host_sum[i] : total[i] + host_sum[i];
    }
    const float count =
        static_cast<float>(hosts_ * locals_) * static_cast<float>(plan_.options.micro_batches);
    for (float& g : total) g /= count;
    return total;
  }

  float Gradient(size_t u, size_t i, int rank, int64_t step, int micro) const {
    if (no_gradient(rank, step, static_cast<int>(u))) return 0;
    return FakeGradient(master_[u][i], static_cast<int>(u), static_cast<int64_t>(i), rank, step,
                        micro);
  }

  double Norm(const std::vector<std::vector<float>>& gradients) const {
    double squares = 0;
    for (int rank = 0; rank < hosts_ * locals_; ++rank) {
      double own = 0;
      for (size_t u = 0; u < gradients.size(); ++u) {
        const UnitLayout& unit = plan_.units[u];
        if (!unit.spec.trainable) continue;
        const int64_t matrix = unit.matrix.size();
        const comm::Range a = unit.matrix.Shard(rank % locals_, rank / locals_);
        const comm::Range b = unit.vector.Shard(rank % locals_, rank / locals_);
        const std::span<const float> flat(gradients[u]);
        own += kernels::SumOfSquares(
            {}, flat.subspan(static_cast<size_t>(a.begin), static_cast<size_t>(a.size())));
        own += kernels::SumOfSquares(
            {}, flat.subspan(static_cast<size_t>(matrix + b.begin), static_cast<size_t>(b.size())));
      }
      squares += own;
    }
    return std::sqrt(squares);
  }

  void Update(size_t u, const std::vector<float>& gradient, int64_t step, float scale) {
    const optim::GroupSettings& adamw = plan_.options.groups[0];
    kernels::AdamWStep update{.lr = FakeLr(step),
                              .beta1 = adamw.beta1,
                              .beta2 = adamw.beta2,
                              .eps = adamw.eps,
                              .weight_decay = adamw.weight_decay,
                              .grad_scale = scale,
                              .step = step + 1};
    const size_t matrix = static_cast<size_t>(plan_.units[u].matrix.size());
    const auto split = [&](auto& flat, bool first) {
      const auto all = std::span(flat);
      return first ? all.subspan(0, matrix) : all.subspan(matrix);
    };
    kernels::AdamW({}, update, split(gradient, true), split(master_[u], true), split(m_[u], true),
                   split(v_[u], true));
    update.weight_decay = 0;
    kernels::AdamW({}, update, split(gradient, false), split(master_[u], false),
                   split(m_[u], false), split(v_[u], false));
  }

  const Plan& plan_;
  int hosts_;
  int locals_;
  std::vector<std::vector<float>> master_, m_, v_;
};

}  // namespace thinwire::zero
