#include "thinwire/train/llama_config.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"

namespace thinwire::train {
namespace {

zero::UnitSpec BlockUnit(const LlamaConfig& config, int64_t layer) {
  const int64_t hidden = config.hidden;
  const int64_t kv = config.kv_heads * config.head_dim();
  const std::string prefix = StrCat("model.layers.", layer);
  return {.name = prefix,
          .parameters = {{prefix + ".input_layernorm.weight", {hidden}},
                         {prefix + ".self_attn.q_proj.weight", {hidden, hidden}},
                         {prefix + ".self_attn.k_proj.weight", {kv, hidden}},
                         {prefix + ".self_attn.v_proj.weight", {kv, hidden}},
                         {prefix + ".self_attn.o_proj.weight", {hidden, hidden}},
                         {prefix + ".post_attention_layernorm.weight", {hidden}},
                         {prefix + ".mlp.gate_proj.weight", {config.intermediate, hidden}},
                         {prefix + ".mlp.up_proj.weight", {config.intermediate, hidden}},
                         {prefix + ".mlp.down_proj.weight", {hidden, config.intermediate}}}};
}

}  // namespace

LlamaUnitIndex UnitIndex(const LlamaConfig& config) {
  return {.embedding = 0,
          .first_block = 1,
          .head = config.tie_head ? 0 : static_cast<int>(config.layers) + 1};
}

std::vector<zero::UnitSpec> LlamaUnits(const LlamaConfig& config) {
  const zero::ParameterSpec norm{"model.norm.weight", {config.hidden}};
  const zero::ParameterSpec embedding{"model.embed_tokens.weight",
                                      {config.vocab_size, config.hidden}};
  std::vector<zero::UnitSpec> units;
  if (config.tie_head) {
    units.push_back({.name = "model", .parameters = {norm, embedding}});
  } else {
    units.push_back(
        {.name = "model.embed_tokens", .parameters = {embedding}, .weights_in_backward = false});
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    units.push_back(BlockUnit(config, layer));
  }
  if (!config.tie_head) {
    units.push_back({.name = "lm_head",
                     .parameters = {norm, {"lm_head.weight", {config.vocab_size, config.hidden}}}});
  }
  return units;
}

void FillInitial(const LlamaConfig& config, uint64_t seed, const zero::ParameterSpec& parameter,
                 int64_t offset, std::span<float> out) {
  if (parameter.shape.size() == 1) {
    std::ranges::fill(out, 1.0f);
    return;
  }
  const bool residual =
      parameter.name.ends_with("o_proj.weight") || parameter.name.ends_with("down_proj.weight");
  const double deviation =
      residual ? 0.02 / std::sqrt(2.0 * static_cast<double>(config.layers)) : 0.02;
  const CounterRandom random(HashBytes(parameter.name, seed));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(
        deviation * random.Normal(static_cast<uint64_t>(offset) + static_cast<uint64_t>(i)));
  }
}

}  // namespace thinwire::train
