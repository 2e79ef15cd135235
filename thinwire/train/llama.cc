#include "thinwire/train/llama.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>

#include <utility>

namespace thinwire::train {
namespace {

using AttentionOf =
    std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;

at::Tensor BlockAround(const LlamaConfig& config, const BlockParameters& p, const at::Tensor& x,
                       const AttentionOf& attention) {
  const auto eps = static_cast<float>(config.norm_eps);
  const at::Tensor h = RmsNorm(x, p.input_norm, eps);
  const at::Tensor mixed = attention(at::linear(h, p.q), at::linear(h, p.k), at::linear(h, p.v));
  const at::Tensor middle = x.add(at::linear(mixed, p.o));
  const at::Tensor g = RmsNorm(middle, p.post_norm, eps);
  return middle.add(at::linear(SwiGlu(at::linear(g, p.gate), at::linear(g, p.up)), p.down));
}

}  // namespace

at::Tensor EmbeddingParameter(const LlamaConfig& config, const ParameterOf& parameter) {
  return parameter(UnitIndex(config).embedding, config.tie_head ? 1 : 0);
}

BlockParameters BlockOf(const LlamaConfig& config, const ParameterOf& parameter, int64_t layer) {
  const int unit = UnitIndex(config).first_block + static_cast<int>(layer);
  const auto at = [&](int index) { return parameter(unit, index); };
  return {.input_norm = at(0),
          .q = at(1),
          .k = at(2),
          .v = at(3),
          .o = at(4),
          .post_norm = at(5),
          .gate = at(6),
          .up = at(7),
          .down = at(8)};
}

HeadParameters HeadOf(const LlamaConfig& config, const ParameterOf& parameter) {
  const int unit = UnitIndex(config).head;
  return {.norm = parameter(unit, 0), .projection = parameter(unit, 1)};
}

at::Tensor Embed(const at::Tensor& weight, const at::Tensor& tokens) {
  return at::embedding(weight, tokens);
}

at::Tensor Block(const LlamaConfig& config, const Rotary& rotary, const BlockParameters& parameters,
                 const at::Tensor& x) {
  return BlockAround(config, parameters, x,
                     [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
                       return CausalAttention(q, k, v, rotary, {config.heads, config.kv_heads});
                     });
}

at::Tensor CachedBlock(const LlamaConfig& config, const Rotary& rotary,
                       const BlockParameters& parameters, const at::Tensor& x, int64_t position,
                       AttentionCache& cache) {
  return BlockAround(
      config, parameters, x, [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
        return CachedAttention(q, k, v, rotary, {config.heads, config.kv_heads}, position, cache);
      });
}

at::Tensor Logits(const LlamaConfig& config, const HeadParameters& parameters,
                  const at::Tensor& x) {
  const at::Tensor h = RmsNorm(x, parameters.norm, static_cast<float>(config.norm_eps));
  return at::linear(h.reshape({-1, config.hidden}), parameters.projection);
}

at::Tensor Loss(const LlamaConfig& config, const HeadParameters& parameters, const at::Tensor& x,
                const at::Tensor& targets) {
  return CrossEntropy(Logits(config, parameters, x), targets.reshape({-1}));
}

}  // namespace thinwire::train
