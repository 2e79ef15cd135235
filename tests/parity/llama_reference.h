// What N x L ranks must compute with fp32 codecs, by plain torch in one process: gradients summed
// over locals, then micro-batches, then hosts, in index order; the mean by one division; norms per
// shard in owner (= rank) order; AdamW on whole flats.
#pragma once

#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <memory>

#include "tests/parity/llama_on_ranks.h"
#include "thinwire/base/aligned_buffer.h"
#include "thinwire/kernels/adamw.h"
#include "thinwire/kernels/sum.h"
#include "thinwire/optim/clip.h"

namespace thinwire::parity {

struct ReferenceStep {
  double loss = 0;
  double grad_norm = 0;
};

class LlamaReference {
 public:
  LlamaReference(const train::LlamaConfig& config, int hosts, int locals,
                 const zero::EngineOptions& options)
      : config_(config),
        hosts_(hosts),
        locals_(locals),
        options_(options),
        rotary_(kSequence, config.head_dim(), config.rope_theta) {
    for (zero::UnitLayout& layout :
         zero::MakeLayout(train::LlamaUnits(config), hosts, locals, options.compute)) {
      const int64_t bytes = 4 * layout.numel();
      Unit& unit = units_.emplace_back(Unit{std::move(layout), AlignedBuffer(bytes),
                                            AlignedBuffer(bytes), AlignedBuffer(bytes)});
      for (size_t p = 0; p < unit.layout.places.size(); ++p) {
        const zero::ParameterPlace& place = unit.layout.places[p];
        const std::span<float> values = Part(unit.master, place.offset, place.numel);
        train::FillInitial(config, kSeed, unit.layout.spec.parameters[p], 0, values);
        unit.parameters.push_back(
            at::from_blob(values.data(), unit.layout.spec.parameters[p].shape, at::kFloat)
                .set_requires_grad(true));
      }
    }
  }

  ReferenceStep Step(int64_t step) {
    std::vector<AlignedBuffer> total;
    for (const Unit& unit : units_) total.emplace_back(4 * unit.layout.numel());
    ReferenceStep result;
    for (int host = 0; host < hosts_; ++host) {
      std::vector<AlignedBuffer> host_sum;
      for (const Unit& unit : units_) host_sum.emplace_back(4 * unit.layout.numel());
      std::vector<double> losses(static_cast<size_t>(locals_));
      for (int micro = 0; micro < options_.micro_batches; ++micro) {
        for (int local = 0; local < locals_; ++local) {
          losses[static_cast<size_t>(local)] +=
              Gradients(SampleOf(config_, host * locals_ + local, step, micro));
          Collect(micro == 0 && local == 0, host_sum);
        }
      }
      for (const double loss : losses) result.loss += loss / options_.micro_batches;
      for (size_t u = 0; u < units_.size(); ++u) {
        Add(host == 0, host_sum[u].As<float>(), total[u].As<float>());
      }
    }
    const auto count = static_cast<float>(hosts_ * locals_ * options_.micro_batches);
    for (const AlignedBuffer& flat : total) {
      for (float& g : flat.As<float>()) g /= count;
    }
    result.loss /= hosts_ * locals_;
    result.grad_norm = Norm(total);
    const auto scale =
        static_cast<float>(optim::ClipCoefficient(result.grad_norm, options_.max_grad_norm));
    for (size_t u = 0; u < units_.size(); ++u) Update(units_[u], total[u], step, scale);
    return result;
  }

  // fp32 weights of `unit`, as its layout has them.
  std::span<const float> weights(int unit) const {
    return units_[static_cast<size_t>(unit)].master.As<float>();
  }

 private:
  struct Unit {
    zero::UnitLayout layout;
    AlignedBuffer master, m, v;
    std::vector<Tensor> parameters{};  // views of master
  };

  static std::span<float> Part(const AlignedBuffer& flat, int64_t begin, int64_t size) {
    return flat.As<float>().subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
  }

  static void Add(bool first, std::span<const float> term, std::span<float> sum) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = first ? term[i] : sum[i] + term[i];
  }

  // Leaves them in the parameters.
  double Gradients(const Sample& sample) {
    const train::ParameterOf parameter = [this](int u, int i) {
      return units_[static_cast<size_t>(u)].parameters[static_cast<size_t>(i)];
    };
    Tensor x = train::Embed(train::EmbeddingParameter(config_, parameter), sample.tokens);
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      x = train::Block(config_, rotary_, train::BlockOf(config_, parameter, layer), x);
    }
    const Tensor loss = train::Loss(config_, train::HeadOf(config_, parameter), x, sample.targets);
    torch::autograd::backward({loss});
    return loss.item().toDouble();
  }

  void Collect(bool first, std::vector<AlignedBuffer>& sums) {
    for (size_t u = 0; u < units_.size(); ++u) {
      for (size_t p = 0; p < units_[u].parameters.size(); ++p) {
        const zero::ParameterPlace& place = units_[u].layout.places[p];
        Tensor& gradient = units_[u].parameters[p].mutable_grad();
        const Tensor dense = gradient.contiguous();
        Add(first, {dense.data_ptr<float>(), static_cast<size_t>(place.numel)},
            Part(sums[u], place.offset, place.numel));
        gradient.reset();
      }
    }
  }

  double Norm(const std::vector<AlignedBuffer>& gradients) const {
    double squares = 0;
    for (int rank = 0; rank < hosts_ * locals_; ++rank) {
      double own = 0;
      for (size_t u = 0; u < units_.size(); ++u) {
        const zero::UnitLayout& layout = units_[u].layout;
        const comm::Range matrix = layout.matrix.Shard(rank % locals_, rank / locals_);
        const comm::Range vector = layout.vector.Shard(rank % locals_, rank / locals_);
        own += kernels::SumOfSquares({}, Part(gradients[u], matrix.begin, matrix.size()));
        own += kernels::SumOfSquares(
            {}, Part(gradients[u], layout.matrix.size() + vector.begin, vector.size()));
      }
      squares += own;
    }
    return std::sqrt(squares);
  }

  void Update(Unit& unit, const AlignedBuffer& gradient, int64_t step, float scale) const {
    const optim::GroupSettings& adamw = options_.groups[0];
    const int64_t matrix = unit.layout.matrix.size();
    for (const bool is_matrix : {true, false}) {
      const int64_t begin = is_matrix ? 0 : matrix;
      const int64_t size = is_matrix ? matrix : unit.layout.vector.size();
      kernels::AdamW({},
                     {.lr = LearningRate(step),
                      .beta1 = adamw.beta1,
                      .beta2 = adamw.beta2,
                      .eps = adamw.eps,
                      .weight_decay = is_matrix ? adamw.weight_decay : 0,
                      .grad_scale = scale,
                      .step = step + 1},
                     Part(gradient, begin, size), Part(unit.master, begin, size),
                     Part(unit.m, begin, size), Part(unit.v, begin, size));
    }
  }

  const train::LlamaConfig config_;
  const int hosts_, locals_;
  const zero::EngineOptions options_;
  const train::Rotary rotary_;
  std::vector<Unit> units_;
};

}  // namespace thinwire::parity
