// Forward and backward of the native model and of its parts, one thread by default
// (OMP_NUM_THREADS), at the size of the bars in the design: 1 x 128 tokens, 29.9 M parameters.
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <benchmark/benchmark.h>

#include <vector>

#include "thinwire/train/llama.h"

namespace thinwire::train {
namespace {

constexpr LlamaConfig kConfig{.vocab_size = 4096,
                              .hidden = 512,
                              .layers = 8,
                              .heads = 8,
                              .kv_heads = 8,
                              .intermediate = 1408};
constexpr int64_t kTokens = 128;

at::Tensor Leaf(at::IntArrayRef shape) {
  return at::randn(shape, at::kBFloat16).set_requires_grad(true);
}

// body() gives a tensor; times it and its backward.
template <typename Body>
void ForwardBackward(benchmark::State& state, const Body& body) {
  const at::Tensor gradient = at::randn(body().sizes(), body().scalar_type());
  for (auto _ : state) body().backward(gradient);
}

void OurRmsNorm(benchmark::State& state) {
  const at::Tensor x = Leaf({1, kTokens, 512}), w = Leaf({512});
  ForwardBackward(state, [&] { return RmsNorm(x, w, 1e-5f); });
}
void TorchRmsNorm(benchmark::State& state) {
  const at::Tensor x = Leaf({1, kTokens, 512}), w = Leaf({512});
  ForwardBackward(state, [&] { return at::rms_norm(x, {512}, w, 1e-5); });
}
void OurSwiGlu(benchmark::State& state) {
  const at::Tensor a = Leaf({1, kTokens, 1408}), b = Leaf({1, kTokens, 1408});
  ForwardBackward(state, [&] { return SwiGlu(a, b); });
}
void TorchSwiGlu(benchmark::State& state) {
  const at::Tensor a = Leaf({1, kTokens, 1408}), b = Leaf({1, kTokens, 1408});
  ForwardBackward(state, [&] { return at::silu(a).mul(b); });
}
void OurAttentionWithRotary(benchmark::State& state) {
  const int64_t tokens = state.range(0);
  const Rotary rotary(tokens, 64, 10000);
  const at::Tensor q = Leaf({1, tokens, 512}), k = Leaf({1, tokens, 512}),
                   v = Leaf({1, tokens, 512});
  ForwardBackward(state, [&] { return CausalAttention(q, k, v, rotary, {8, 8}); });
}
void TorchAttentionWithoutRotary(benchmark::State& state) {
  const int64_t tokens = state.range(0);
  const at::Tensor q = Leaf({1, 8, tokens, 64}), k = Leaf({1, 8, tokens, 64}),
                   v = Leaf({1, 8, tokens, 64});
  ForwardBackward(state, [&] {
    return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
  });
}
void OurCrossEntropy(benchmark::State& state) {
  const at::Tensor logits = Leaf({kTokens, 4096});
  const at::Tensor targets = at::empty({kTokens}, at::kLong).fill_(7);
  for (auto _ : state) CrossEntropy(logits, targets).backward();
}

class WholeModel {
 public:
  WholeModel() : rotary_(kTokens, kConfig.head_dim(), kConfig.rope_theta) {
    for (const zero::UnitSpec& unit : LlamaUnits(kConfig)) {
      units_.emplace_back();
      for (const zero::ParameterSpec& spec : unit.parameters) {
        units_.back().push_back(at::randn(spec.shape, at::kBFloat16).mul_(0.02));
        units_.back().back().set_requires_grad(true);
      }
    }
    tokens_ = at::empty({1, kTokens}, at::kLong).fill_(3);
  }

  at::Tensor Loss() const {
    const ParameterOf parameter = [this](int unit, int index) {
      return units_[static_cast<size_t>(unit)][static_cast<size_t>(index)];
    };
    at::Tensor x = Embed(EmbeddingParameter(kConfig, parameter), tokens_);
    for (int64_t layer = 0; layer < kConfig.layers; ++layer) {
      x = Block(kConfig, rotary_, BlockOf(kConfig, parameter, layer), x);
    }
    return train::Loss(kConfig, HeadOf(kConfig, parameter), x, tokens_);
  }

 private:
  Rotary rotary_;
  std::vector<std::vector<at::Tensor>> units_;
  at::Tensor tokens_;
};

void ModelForwardBackward(benchmark::State& state) {
  const WholeModel model;
  for (auto _ : state) model.Loss().backward();
}

BENCHMARK(OurRmsNorm)->Unit(benchmark::kMicrosecond);
BENCHMARK(TorchRmsNorm)->Unit(benchmark::kMicrosecond);
BENCHMARK(OurSwiGlu)->Unit(benchmark::kMicrosecond);
BENCHMARK(TorchSwiGlu)->Unit(benchmark::kMicrosecond);
BENCHMARK(OurAttentionWithRotary)->Arg(128)->Arg(1024)->Unit(benchmark::kMicrosecond);
BENCHMARK(TorchAttentionWithoutRotary)->Arg(128)->Arg(1024)->Unit(benchmark::kMicrosecond);
BENCHMARK(OurCrossEntropy)->Unit(benchmark::kMicrosecond);
BENCHMARK(ModelForwardBackward)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace thinwire::train

BENCHMARK_MAIN();
