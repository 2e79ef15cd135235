#include "thinwire/infer/convert_families.h"

#include <cmath>
#include <numbers>

#include "thinwire/base/error.h"

namespace thinwire::infer {
namespace {

constexpr int64_t kMostColumns = 1 << 20;
constexpr int64_t kMostLayers = 1024;
constexpr int64_t kMostPositions = 1 << 24;

// Collects rules for tensors with these beginnings of their names.
class Rules {
 public:
  Rules(std::string source, std::string target, std::vector<TensorRule>& rules)
      : source_(std::move(source)), target_(std::move(target)), rules_(rules) {}

  void Matrix(const std::string& source, const std::string& target, int64_t rows, int64_t columns,
              RowOrder order = RowOrder::kSame, int64_t heads = 0) {
    const bool turned = order == RowOrder::kTransposed;
    const std::vector<int64_t> shape =
        turned ? std::vector{columns, rows} : std::vector{rows, columns};
    rules_.push_back({.source = source_ + source + ".weight",
                      .target = target_ + target + ".weight",
                      .shape = shape,
                      .order = order,
                      .heads = heads});
    rules_.push_back({.source = source_ + source + ".bias",
                      .target = target_ + target + ".bias",
                      .shape = {rows},
                      .order = turned ? RowOrder::kSame : order,
                      .heads = heads,
                      .optional = true});
  }
  void Norm(const std::string& source, const std::string& target, int64_t columns, bool bias) {
    for (const std::string part : {".weight", ".bias"}) {
      if (part == ".bias" && !bias) continue;
      rules_.push_back({.source = source_ + source + part,
                        .target = target_ + target + part,
                        .shape = {columns}});
    }
  }

 private:
  std::string source_, target_;
  std::vector<TensorRule>& rules_;
};

// Sizes that all families have, and where they go.
class Writer {
 public:
  Writer(const ModelSource& model, io::GgufWriter& writer, Family& family)
      : model_(model), config_(model.config()), writer_(writer), family_(family) {}

  template <typename T>
  void Set(const std::string& key, T value) {
    writer_.Set<T>(family_.architecture + "." + key, value);
  }
  int64_t Size(std::string_view from, const std::string& key, int64_t most) {
    const int64_t value = config_.Integer(from, 1, most);
    Set(key, static_cast<uint32_t>(value));
    return value;
  }
  // Of the names that a saved model may begin its own with, the one that it has.
  std::string Prefix(std::initializer_list<const char*> prefixes, const std::string& embedding) {
    for (const char* prefix : prefixes) {
      if (model_.FindTensor(prefix + embedding) != nullptr) return prefix;
    }
    throw UsageError(
        StrCat(model_.name(), ": tensor \"", *prefixes.begin(), embedding, "\" is missing"));
  }
  // The embedding's matrix serves as head where a model says so or has no other.
  void Head(bool tied_by_default) {
    const bool tied = config_.Flag("tie_word_embeddings",
                                   tied_by_default || !model_.FindTensor("lm_head.weight"));
    if (tied) {
      family_.left_out.push_back("lm_head.weight");
    } else {
      Rules("", "", family_.tensors).Matrix("lm_head", "output", family_.vocabulary, hidden);
    }
  }

  int64_t hidden = 0;

 private:
  const ModelSource& model_;
  const JsonView& config_;
  io::GgufWriter& writer_;
  Family& family_;
};

// Frequencies of long waves are divided by `factor`, those of short ones are not, with a ramp
// between (Llama 3.1).
std::vector<float> Llama3Factors(const JsonView& scaling, double base, int64_t turned) {
  const auto need = [&](std::string_view key) {
    const auto value = scaling.FindPositive(key);
    if (!value) scaling.Fail(key, "is missing");
    return *value;
  };
  const double factor = need("factor"), low = need("low_freq_factor");
  const double high = need("high_freq_factor");
  const double context = need("original_max_position_embeddings");
  if (high <= low) scaling.Fail("high_freq_factor", "must be above low_freq_factor");
  std::vector<float> factors;
  for (int64_t i = 0; i < turned; i += 2) {
    const double wave =
        2 * std::numbers::pi * std::pow(base, static_cast<double>(i) / static_cast<double>(turned));
    double divisor = factor;
    if (wave < context / high) {
      divisor = 1;
    } else if (wave <= context / low) {
      const double smooth = (context / wave - low) / (high - low);
      divisor = 1 / ((1 - smooth) / factor + smooth);
    }
    factors.push_back(static_cast<float>(divisor));
  }
  return factors;
}

// Older files have rope_theta and rope_scaling, newer ones rope_parameters with both in it.
void DescribeRotary(const JsonView& config, int64_t turned, Writer& writer, Family& family) {
  auto scaling = config.FindObject("rope_parameters");
  double base = config.FindPositive("rope_theta").value_or(10000);
  if (scaling) base = scaling->FindPositive("rope_theta").value_or(base);
  if (!scaling) scaling = config.FindObject("rope_scaling");
  writer.Set("rope.dimension_count", static_cast<uint32_t>(turned));
  writer.Set("rope.freq_base", static_cast<float>(base));
  if (config.FindPositive("partial_rotary_factor").value_or(1) != 1) {
    config.Fail("partial_rotary_factor", "heads that turn in part are not converted");
  }
  if (!scaling) return;
  const std::string_view key = scaling->Find("rope_type") ? "rope_type" : "type";
  scaling->RequireText(key, "default", {"default", "linear", "llama3"});
  const std::string type = scaling->FindText(key).value_or("default");
  if (type == "linear") {
    writer.Set<std::string_view>("rope.scaling.type", "linear");
    writer.Set("rope.scaling.factor",
               static_cast<float>(scaling->FindPositive("factor").value_or(1)));
  } else if (type == "llama3") {
    family.frequency_factors = Llama3Factors(*scaling, base, turned);
  }
}

void DescribeWindow(const JsonView& config, bool used, Writer& writer) {
  const auto window = config.FindInteger("sliding_window", 1, kMostPositions);
  if (!used || !window) return;
  if (config.FindInteger("max_window_layers", 0, kMostLayers).value_or(0) != 0) {
    config.Fail("max_window_layers", "windows in some layers only are not converted");
  }
  writer.Set("attention.sliding_window", static_cast<uint32_t>(*window));
}

// LLaMA, Mistral, Qwen2: the same tensors, but LLaMA's readers turn neighbours.
void DescribeLlama(const ModelSource& model, bool qwen, Writer& writer, Family& family) {
  const JsonView& config = model.config();
  config.RequireText("hidden_act", "silu", {"silu"});
  writer.Size("max_position_embeddings", "context_length", kMostPositions);
  const int64_t hidden = writer.hidden =
      writer.Size("hidden_size", "embedding_length", kMostColumns);
  const int64_t wide = writer.Size("intermediate_size", "feed_forward_length", kMostColumns);
  const int64_t layers = writer.Size("num_hidden_layers", "block_count", kMostLayers);
  const int64_t heads = writer.Size("num_attention_heads", "attention.head_count", hidden);
  const int64_t kv_heads = config.FindInteger("num_key_value_heads", 1, heads).value_or(heads);
  writer.Set("attention.head_count_kv", static_cast<uint32_t>(kv_heads));
  const auto given = config.FindInteger("head_dim", 2, kMostColumns);
  if (!given && hidden % heads != 0) {
    config.Fail("num_attention_heads", StrCat(heads, " does not divide hidden_size ", hidden));
  }
  const int64_t head = given.value_or(hidden / heads);
  if (head % 2 != 0) config.Fail("head_dim", StrCat(head, " is odd"));
  if (head * heads != hidden) {
    writer.Set("attention.key_length", static_cast<uint32_t>(head));
    writer.Set("attention.value_length", static_cast<uint32_t>(head));
  }
  writer.Set("attention.layer_norm_rms_epsilon",
             static_cast<float>(config.FindPositive("rms_norm_eps").value_or(1e-6)));
  DescribeRotary(config, head, writer, family);
  DescribeWindow(config, qwen ? config.Flag("use_sliding_window", false) : true, writer);

  const RowOrder turned = qwen ? RowOrder::kSame : RowOrder::kNeighbours;
  const std::string prefix = writer.Prefix({"model.", ""}, "embed_tokens.weight");
  Rules whole(prefix, "", family.tensors);
  whole.Matrix("embed_tokens", "token_embd", family.vocabulary, hidden);
  whole.Norm("norm", "output_norm", hidden, false);
  for (int64_t i = 0; i < layers; ++i) {
    Rules layer(StrCat(prefix, "layers.", i, "."), StrCat("blk.", i, "."), family.tensors);
    layer.Norm("input_layernorm", "attn_norm", hidden, false);
    layer.Matrix("self_attn.q_proj", "attn_q", heads * head, hidden, turned, heads);
    layer.Matrix("self_attn.k_proj", "attn_k", kv_heads * head, hidden, turned, kv_heads);
    layer.Matrix("self_attn.v_proj", "attn_v", kv_heads * head, hidden);
    layer.Matrix("self_attn.o_proj", "attn_output", hidden, heads * head);
    layer.Norm("post_attention_layernorm", "ffn_norm", hidden, false);
    layer.Matrix("mlp.gate_proj", "ffn_gate", wide, hidden);
    layer.Matrix("mlp.up_proj", "ffn_up", wide, hidden);
    layer.Matrix("mlp.down_proj", "ffn_down", hidden, wide);
  }
  writer.Head(false);
  family.left_out.push_back(".rotary_emb.inv_freq");
}

void DescribeGpt2(const ModelSource& model, Writer& writer, Family& family) {
  const JsonView& config = model.config();
  config.RequireText("activation_function", "gelu_new", {"gelu_new", "gelu_pytorch_tanh"});
  for (const std::string_view key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) {
    if (config.Flag(key, false)) config.Fail(key, "is not converted");
  }
  if (!config.Flag("scale_attn_weights", true)) config.Fail("scale_attn_weights", "must be true");
  const int64_t positions = writer.Size("n_positions", "context_length", kMostPositions);
  const int64_t hidden = writer.hidden = writer.Size("n_embd", "embedding_length", kMostColumns);
  const int64_t wide = config.FindInteger("n_inner", 1, kMostColumns).value_or(4 * hidden);
  writer.Set("feed_forward_length", static_cast<uint32_t>(wide));
  const int64_t layers = writer.Size("n_layer", "block_count", kMostLayers);
  writer.Size("n_head", "attention.head_count", hidden);
  writer.Set("attention.layer_norm_epsilon",
             static_cast<float>(config.FindPositive("layer_norm_epsilon").value_or(1e-5)));

  const std::string prefix = writer.Prefix({"transformer.", ""}, "wte.weight");
  Rules whole(prefix, "", family.tensors);
  whole.Matrix("wte", "token_embd", family.vocabulary, hidden);
  family.tensors.push_back({.source = prefix + "wpe.weight",
                            .target = "position_embd.weight",
                            .shape = {positions, hidden},
                            .exact = true});
  whole.Norm("ln_f", "output_norm", hidden, true);
  for (int64_t i = 0; i < layers; ++i) {
    Rules layer(StrCat(prefix, "h.", i, "."), StrCat("blk.", i, "."), family.tensors);
    layer.Norm("ln_1", "attn_norm", hidden, true);
    layer.Matrix("attn.c_attn", "attn_qkv", 3 * hidden, hidden, RowOrder::kTransposed);
    layer.Matrix("attn.c_proj", "attn_output", hidden, hidden, RowOrder::kTransposed);
    layer.Norm("ln_2", "ffn_norm", hidden, true);
    layer.Matrix("mlp.c_fc", "ffn_up", wide, hidden, RowOrder::kTransposed);
    layer.Matrix("mlp.c_proj", "ffn_down", hidden, wide, RowOrder::kTransposed);
  }
  writer.Head(true);
  family.left_out.push_back(".attn.bias");  // the causal mask
  family.left_out.push_back(".attn.masked_bias");
}

void DescribeOpt(const ModelSource& model, Writer& writer, Family& family) {
  const JsonView& config = model.config();
  config.RequireText("activation_function", "relu", {"relu"});
  for (const std::string_view key : {"do_layer_norm_before", "layer_norm_elementwise_affine"}) {
    if (!config.Flag(key, true)) config.Fail(key, "must be true");
  }
  if (config.Flag("_remove_final_layer_norm", false)) {
    config.Fail("_remove_final_layer_norm", "is not converted");
  }
  const int64_t positions =
      writer.Size("max_position_embeddings", "context_length", kMostPositions);
  const int64_t hidden = writer.hidden =
      writer.Size("hidden_size", "embedding_length", kMostColumns);
  if (config.FindInteger("word_embed_proj_dim", 1, kMostColumns).value_or(hidden) != hidden) {
    config.Fail("word_embed_proj_dim", "must be as hidden_size");
  }
  const int64_t wide = writer.Size("ffn_dim", "feed_forward_length", kMostColumns);
  const int64_t layers = writer.Size("num_hidden_layers", "block_count", kMostLayers);
  writer.Size("num_attention_heads", "attention.head_count", hidden);
  writer.Set("attention.layer_norm_epsilon", 1e-5f);

  const std::string prefix =
      writer.Prefix({"model.decoder.", "decoder.", ""}, "embed_tokens.weight");
  Rules whole(prefix, "", family.tensors);
  whole.Matrix("embed_tokens", "token_embd", family.vocabulary, hidden);
  // Positions count from 2: the model once kept a row for padding.
  family.tensors.push_back({.source = prefix + "embed_positions.weight",
                            .target = "position_embd.weight",
                            .shape = {positions + 2, hidden},
                            .order = RowOrder::kBehindTwo,
                            .exact = true});
  whole.Norm("final_layer_norm", "output_norm", hidden, true);
  for (int64_t i = 0; i < layers; ++i) {
    Rules layer(StrCat(prefix, "layers.", i, "."), StrCat("blk.", i, "."), family.tensors);
    layer.Norm("self_attn_layer_norm", "attn_norm", hidden, true);
    layer.Matrix("self_attn.q_proj", "attn_q", hidden, hidden);
    layer.Matrix("self_attn.k_proj", "attn_k", hidden, hidden);
    layer.Matrix("self_attn.v_proj", "attn_v", hidden, hidden);
    layer.Matrix("self_attn.out_proj", "attn_output", hidden, hidden);
    layer.Norm("final_layer_norm", "ffn_norm", hidden, true);
    layer.Matrix("fc1", "ffn_up", wide, hidden);
    layer.Matrix("fc2", "ffn_down", hidden, wide);
  }
  writer.Head(true);
}

}  // namespace

Family DescribeFamily(const ModelSource& model, io::GgufWriter& writer) {
  const JsonView& config = model.config();
  config.RequireText("model_type", "", {"llama", "mistral", "qwen2", "gpt2", "opt"});
  const std::string type = *config.FindText("model_type");
  Family family;
  family.architecture = type == "mistral" ? "llama" : type;
  family.vocabulary = config.Integer("vocab_size", 1, int64_t{1} << 24);
  writer.Set<std::string_view>("general.architecture", family.architecture);
  Writer describe(model, writer, family);
  describe.Set("vocab_size", static_cast<uint32_t>(family.vocabulary));
  if (type == "gpt2") {
    DescribeGpt2(model, describe, family);
  } else if (type == "opt") {
    DescribeOpt(model, describe, family);
  } else {
    DescribeLlama(model, type == "qwen2", describe, family);
  }
  return family;
}

}  // namespace thinwire::infer
