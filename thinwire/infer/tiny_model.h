// For tests: a model of a few thousand random weights as a GGUF file, and its logits in double,
// computed the plain way.
#pragma once

#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/io/gguf_writer.h"

namespace thinwire::infer {

struct TinyShape {
  std::string architecture = "llama";
  int64_t layers = 2, hidden = 64, heads = 4, kv_heads = 2, feed_forward = 96, vocabulary = 50;
  int64_t context = 128;
  int64_t window = 0;
  double rope_scale = 1;
  bool tied = true;
  bool rope_factors = false;
};

class TinyModel {
 public:
  explicit TinyModel(const TinyShape& shape) : s_(shape) {
    dim_ = s_.hidden / s_.heads;
    classic_ = s_.architecture == "gpt2" || s_.architecture == "opt";
    Add("token_embd.weight", {s_.vocabulary, s_.hidden}, 1);
    if (classic_) Add("position_embd.weight", {s_.context, s_.hidden}, 1);
    for (int64_t i = 0; i < s_.layers; ++i) AddLayer(StrCat("blk.", i, "."));
    AddNorm("output_norm");
    if (!s_.tied) AddLinear("output", s_.vocabulary, s_.hidden, false);
    if (s_.rope_factors) Add("rope_freqs.weight", {dim_ / 2}, 0.5, 1.5);
  }

  void Write(const std::string& path) const {
    io::GgufWriter writer(io::RealFileSystem(), path);
    const auto key = [&](std::string_view name) { return StrCat(s_.architecture, ".", name); };
    writer.Set<std::string_view>("general.architecture", s_.architecture);
    const auto integer = [&](std::string_view name, int64_t value) {
      writer.Set<uint32_t>(key(name), static_cast<uint32_t>(value));
    };
    integer("block_count", s_.layers);
    integer("embedding_length", s_.hidden);
    integer("feed_forward_length", s_.feed_forward);
    integer("context_length", s_.context);
    integer("attention.head_count", s_.heads);
    integer("attention.head_count_kv", s_.kv_heads);
    if (s_.window > 0) integer("attention.sliding_window", s_.window);
    writer.Set<float>(
        key(classic_ ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"), 1e-5f);
    if (s_.rope_scale != 1) {
      writer.Set<std::string_view>(key("rope.scaling.type"), "linear");
      writer.Set<float>(key("rope.scaling.factor"), static_cast<float>(s_.rope_scale));
    }
    SetTokenizer(writer);
    for (const std::string& name : order_) {
      writer.Declare(name, WeightType::kF32, tensors_.at(name).shape);
    }
    writer.Begin();
    for (const std::string& name : order_) {
      writer.Append(name, std::as_bytes(std::span(tensors_.at(name).values)));
    }
    writer.Finish();
  }

  // After the last of `tokens`.
  std::vector<double> Logits(const std::vector<int32_t>& tokens) const {
    return Apply(s_.tied ? "token_embd" : "output", Hidden(tokens));
  }

  // What the output head sees after the last of `tokens`.
  std::vector<double> Hidden(const std::vector<int32_t>& tokens) const {
    std::vector<std::vector<double>> x;
    for (size_t t = 0; t < tokens.size(); ++t) {
      x.push_back(Row("token_embd.weight", tokens[t]));
      if (classic_) x[t] = Sum(x[t], Row("position_embd.weight", static_cast<int64_t>(t)));
    }
    for (int64_t i = 0; i < s_.layers; ++i) {
      const std::string block = StrCat("blk.", i, ".");
      std::vector<std::vector<double>> normed;
      for (const auto& row : x) normed.push_back(Norm(block + "attn_norm", row));
      const auto attended = Attention(block, normed);
      for (size_t t = 0; t < x.size(); ++t) {
        x[t] = Sum(x[t], Apply(block + "attn_output", attended[t]));
        x[t] = Sum(x[t], FeedForward(block, Norm(block + "ffn_norm", x[t])));
      }
    }
    return Norm("output_norm", x.back());
  }

 private:
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  using Numbers = std::vector<double>;

  // "<s>", "</s>", then a space and letters, one to a token.
  void SetTokenizer(io::GgufWriter& writer) const {
    std::vector<std::string> tokens = {"<s>", "</s>", "\u0120", "\u0120a"};
    std::vector<int32_t> types = {3, 3, 1, 1};
    for (int64_t i = 0; std::ssize(tokens) < s_.vocabulary; ++i) {
      tokens.emplace_back(1, static_cast<char>(i < 26 ? 'a' + i : 'A' + i - 26));
      types.push_back(1);
    }
    writer.Set<std::string_view>("tokenizer.ggml.model", "gpt2");
    writer.Set<std::string_view>("tokenizer.ggml.pre", "gpt-2");
    writer.SetStrings("tokenizer.ggml.tokens", tokens);
    writer.SetArray<int32_t>("tokenizer.ggml.token_type", types);
    writer.SetStrings("tokenizer.ggml.merges", std::vector<std::string>{"\u0120 a"});
    writer.Set<uint32_t>("tokenizer.ggml.bos_token_id", 0);
    writer.Set<uint32_t>("tokenizer.ggml.eos_token_id", 1);
    writer.Set<std::string_view>("tokenizer.chat_template",
                                 "{% for m in messages %}<s>{{ m.content }}</s>{% endfor %}<s>");
  }
  void Add(const std::string& name, std::vector<int64_t> shape, double scale, double offset = 0) {
    const int64_t size =
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    Tensor tensor{std::move(shape), {}};
    const CounterRandom random(HashBytes(name));
    for (int64_t i = 0; i < size; ++i) {
      tensor.values.push_back(
          static_cast<float>(offset + scale * (2 * random.Uniform(static_cast<uint64_t>(i)) - 1)));
    }
    order_.push_back(name);
    tensors_.emplace(name, std::move(tensor));
  }
  void AddLinear(const std::string& name, int64_t rows, int64_t columns, bool bias) {
    Add(name + ".weight", {rows, columns}, 2 / std::sqrt(static_cast<double>(columns)));
    if (bias) Add(name + ".bias", {rows}, 0.5);
  }
  void AddNorm(const std::string& name) {
    Add(name + ".weight", {s_.hidden}, 0.5, 1);
    if (classic_) Add(name + ".bias", {s_.hidden}, 0.5);
  }
  void AddLayer(const std::string& block) {
    AddNorm(block + "attn_norm");
    const int64_t kv = s_.kv_heads * dim_;
    if (s_.architecture == "gpt2") {
      AddLinear(block + "attn_qkv", s_.hidden + 2 * kv, s_.hidden, true);
    } else {
      const bool bias = s_.architecture != "llama";
      AddLinear(block + "attn_q", s_.hidden, s_.hidden, bias);
      AddLinear(block + "attn_k", kv, s_.hidden, bias);
      AddLinear(block + "attn_v", kv, s_.hidden, bias);
    }
    AddLinear(block + "attn_output", s_.hidden, s_.hidden, classic_);
    AddNorm(block + "ffn_norm");
    if (!classic_) AddLinear(block + "ffn_gate", s_.feed_forward, s_.hidden, false);
    AddLinear(block + "ffn_up", s_.feed_forward, s_.hidden, classic_);
    AddLinear(block + "ffn_down", s_.hidden, s_.feed_forward, classic_);
  }

  static Numbers Sum(Numbers a, const Numbers& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
  }
  Numbers Row(const std::string& name, int64_t row) const {
    const Tensor& tensor = tensors_.at(name);
    const auto begin = tensor.values.begin() + row * tensor.shape[1];
    return Numbers(begin, begin + tensor.shape[1]);
  }
  Numbers Apply(const std::string& name, const Numbers& x) const {
    const Tensor& weight = tensors_.at(name + ".weight");
    Numbers y(static_cast<size_t>(weight.shape[0]));
    const auto bias = tensors_.find(name + ".bias");
    for (size_t r = 0; r < y.size(); ++r) {
      y[r] = bias != tensors_.end() ? bias->second.values[r] : 0;
      for (size_t k = 0; k < x.size(); ++k) y[r] += x[k] * weight.values[r * x.size() + k];
    }
    return y;
  }
  Numbers Norm(const std::string& name, Numbers x) const {
    const double n = static_cast<double>(x.size());
    const double mean = classic_ ? std::accumulate(x.begin(), x.end(), 0.0) / n : 0;
    double variance = 0;
    for (const double v : x) variance += (v - mean) * (v - mean) / n;
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * tensors_.at(name + ".weight").values[i];
      if (classic_) x[i] += tensors_.at(name + ".bias").values[i];
    }
    return x;
  }
  void Turn(double* head, size_t position) const {
    const auto half = static_cast<size_t>(dim_ / 2);
    for (size_t i = 0; i < half; ++i) {
      const double factor = s_.rope_factors ? tensors_.at("rope_freqs.weight").values[i] : 1;
      const double angle =
          static_cast<double>(position) / s_.rope_scale / factor *
          std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(dim_));
      const bool halves = s_.architecture == "qwen2";
      double& a = head[halves ? i : 2 * i];
      double& b = head[halves ? half + i : 2 * i + 1];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = b * std::cos(angle) + a * std::sin(angle);
      a = turned;
    }
  }
  void Project(const std::string& block, const Numbers& x, Numbers& q, Numbers& k,
               Numbers& v) const {
    if (s_.architecture != "gpt2") {
      q = Apply(block + "attn_q", x);
      k = Apply(block + "attn_k", x);
      v = Apply(block + "attn_v", x);
      return;
    }
    const Numbers all = Apply(block + "attn_qkv", x);
    const auto kv = s_.kv_heads * dim_;
    q.assign(all.begin(), all.begin() + s_.hidden);
    k.assign(all.begin() + s_.hidden, all.begin() + s_.hidden + kv);
    v.assign(all.begin() + s_.hidden + kv, all.end());
  }
  std::vector<Numbers> Attention(const std::string& block, const std::vector<Numbers>& x) const {
    std::vector<Numbers> q(x.size()), k(x.size()), v(x.size()), out;
    const auto dim = static_cast<size_t>(dim_);
    for (size_t t = 0; t < x.size(); ++t) {
      Project(block, x[t], q[t], k[t], v[t]);
      for (size_t at = 0; !classic_ && at < q[t].size(); at += dim) Turn(&q[t][at], t);
      for (size_t at = 0; !classic_ && at < k[t].size(); at += dim) Turn(&k[t][at], t);
    }
    for (size_t t = 0; t < x.size(); ++t) {
      out.emplace_back(q[t].size());
      const auto window = static_cast<size_t>(s_.window);
      const size_t from = window > 0 && t + 1 > window ? t + 1 - window : 0;
      for (size_t h = 0; h < static_cast<size_t>(s_.heads); ++h) {
        const size_t kv = h / static_cast<size_t>(s_.heads / s_.kv_heads) * dim;
        Numbers weights;
        double total = 0;
        for (size_t p = from; p <= t; ++p) {
          double score = 0;
          for (size_t d = 0; d < dim; ++d) score += q[t][h * dim + d] * k[p][kv + d];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim_))));
          total += weights.back();
        }
        for (size_t p = from; p <= t; ++p) {
          for (size_t d = 0; d < dim; ++d) {
            out[t][h * dim + d] += weights[p - from] / total * v[p][kv + d];
          }
        }
      }
    }
    return out;
  }
  Numbers FeedForward(const std::string& block, const Numbers& x) const {
    Numbers up = Apply(block + "ffn_up", x);
    const Numbers gate = classic_ ? up : Apply(block + "ffn_gate", x);
    for (size_t i = 0; i < up.size(); ++i) {
      const double g = gate[i];
      if (s_.architecture == "gpt2") {
        up[i] = 0.5 * g * (1 + std::tanh(0.7978845608 * (g + 0.044715 * g * g * g)));
      } else if (s_.architecture == "opt") {
        up[i] = std::max(0.0, g);
      } else {
        up[i] *= g / (1 + std::exp(-g));
      }
    }
    return Apply(block + "ffn_down", up);
  }

  const TinyShape s_;
  int64_t dim_ = 0;
  bool classic_ = false;  // LayerNorm, biases, learned positions
  std::vector<std::string> order_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace thinwire::infer
