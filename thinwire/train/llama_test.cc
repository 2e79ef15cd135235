#include "thinwire/train/llama.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "thinwire/base/random.h"

namespace thinwire::train {
namespace {

constexpr LlamaConfig kTiny{
    .vocab_size = 19, .hidden = 24, .layers = 2, .heads = 4, .kv_heads = 2, .intermediate = 20};

// Every parameter of a model as plain leaf tensors, weights large enough that nothing is linear.
struct PlainModel {
  explicit PlainModel(const LlamaConfig& c, at::ScalarType dtype = at::kFloat) : config(c) {
    for (const zero::UnitSpec& unit : LlamaUnits(config)) {
      tensors.emplace_back();
      for (const zero::ParameterSpec& spec : unit.parameters) {
        at::Tensor tensor = at::empty(spec.shape, at::kFloat);
        const std::span<float> values(tensor.data_ptr<float>(),
                                      static_cast<size_t>(tensor.numel()));
        FillInitial(config, 5, spec, 0, values);
        if (spec.shape.size() > 1) tensor.mul_(8);
        tensors.back().push_back(tensor.to(dtype).set_requires_grad(true));
      }
    }
  }

  at::Tensor operator()(int unit, int index) const {
    return tensors[static_cast<size_t>(unit)][static_cast<size_t>(index)];
  }
  ParameterOf parameters() const {
    return [this](int unit, int index) { return (*this)(unit, index); };
  }

  at::Tensor Loss(const Rotary& rotary, const at::Tensor& tokens, const at::Tensor& targets) const {
    at::Tensor x = Embed(EmbeddingParameter(config, parameters()), tokens);
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      x = Block(config, rotary, BlockOf(config, parameters(), layer), x);
    }
    return train::Loss(config, HeadOf(config, parameters()), x, targets);
  }

  LlamaConfig config;
  std::vector<std::vector<at::Tensor>> tensors;
};

at::Tensor Tokens(int64_t batch, int64_t sequence, int64_t vocab, uint64_t seed) {
  at::Tensor out = at::empty({batch, sequence}, at::kLong);
  const CounterRandom random(seed);
  for (int64_t i = 0; i < out.numel(); ++i) {
    out.data_ptr<int64_t>()[i] =
        static_cast<int64_t>(random.Bits(static_cast<uint64_t>(i)) % static_cast<uint64_t>(vocab));
  }
  return out;
}

// --- the model once more, by loops over doubles

using Matrix = std::vector<std::vector<double>>;

Matrix ToMatrix(const at::Tensor& t) {
  const at::Tensor f = t.detach().to(at::kFloat).contiguous();
  const int64_t columns = f.size(-1);
  Matrix out;
  for (int64_t row = 0; row < f.numel() / columns; ++row) {
    const float* p = f.data_ptr<float>() + row * columns;
    out.emplace_back(p, p + columns);
  }
  return out;
}

Matrix Product(const Matrix& x, const Matrix& weight) {
  Matrix y;
  for (const auto& row : x) {
    y.emplace_back();
    for (const auto& w : weight) {
      double sum = 0;
      for (size_t i = 0; i < row.size(); ++i) sum += row[i] * w[i];
      y.back().push_back(sum);
    }
  }
  return y;
}

Matrix NaiveNorm(const Matrix& x, const Matrix& weight, double eps) {
  Matrix y = x;
  for (auto& row : y) {
    double squares = 0;
    for (const double v : row) squares += v * v;
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] *= weight[0][i] / std::sqrt(squares / static_cast<double>(row.size()) + eps);
    }
  }
  return y;
}

void NaiveRotate(Matrix& x, size_t dim, double theta) {
  for (size_t t = 0; t < x.size(); ++t) {
    for (size_t head = 0; head < x[t].size() / dim; ++head) {
      for (size_t i = 0; i < dim / 2; ++i) {
        const double angle =
            static_cast<double>(t) *
            std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
        double &a = x[t][head * dim + i], &b = x[t][head * dim + i + dim / 2];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = turned;
      }
    }
  }
}

Matrix NaiveAttention(const Matrix& q, const Matrix& k, const Matrix& v, size_t heads,
                      size_t kv_heads) {
  const size_t dim = q[0].size() / heads;
  Matrix out(q.size(), std::vector<double>(q[0].size()));
  for (size_t head = 0; head < heads; ++head) {
    const size_t from = head * dim, kv = head / (heads / kv_heads) * dim;
    for (size_t t = 0; t < q.size(); ++t) {
      std::vector<double> weights;
      double sum = 0;
      for (size_t s = 0; s <= t; ++s) {
        double score = 0;
        for (size_t i = 0; i < dim; ++i) score += q[t][from + i] * k[s][kv + i];
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
        sum += weights.back();
      }
      for (size_t s = 0; s <= t; ++s) {
        for (size_t i = 0; i < dim; ++i) out[t][from + i] += weights[s] / sum * v[s][kv + i];
      }
    }
  }
  return out;
}

void Add(Matrix& x, const Matrix& y) {
  for (size_t row = 0; row < x.size(); ++row) {
    for (size_t i = 0; i < x[row].size(); ++i) x[row][i] += y[row][i];
  }
}

double NaiveLoss(const PlainModel& model, const at::Tensor& tokens, const at::Tensor& targets) {
  const LlamaConfig& config = model.config;
  const ParameterOf parameter = model.parameters();
  const auto heads = static_cast<size_t>(config.heads), kv = static_cast<size_t>(config.kv_heads);
  const Matrix embedding = ToMatrix(EmbeddingParameter(config, parameter));
  double loss = 0;
  for (int64_t b = 0; b < tokens.size(0); ++b) {
    Matrix x;
    for (int64_t t = 0; t < tokens.size(1); ++t) {
      x.push_back(embedding[static_cast<size_t>(tokens[b][t].item<int64_t>())]);
    }
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      const BlockParameters p = BlockOf(config, parameter, layer);
      const Matrix h = NaiveNorm(x, ToMatrix(p.input_norm), config.norm_eps);
      Matrix q = Product(h, ToMatrix(p.q)), k = Product(h, ToMatrix(p.k));
      NaiveRotate(q, static_cast<size_t>(config.head_dim()), config.rope_theta);
      NaiveRotate(k, static_cast<size_t>(config.head_dim()), config.rope_theta);
      const Matrix mixed = NaiveAttention(q, k, Product(h, ToMatrix(p.v)), heads, kv);
      Add(x, Product(mixed, ToMatrix(p.o)));
      const Matrix g = NaiveNorm(x, ToMatrix(p.post_norm), config.norm_eps);
      Matrix gate = Product(g, ToMatrix(p.gate));
      const Matrix up = Product(g, ToMatrix(p.up));
      for (size_t row = 0; row < gate.size(); ++row) {
        for (size_t i = 0; i < gate[row].size(); ++i) {
          gate[row][i] *= up[row][i] / (1 + std::exp(-gate[row][i]));
        }
      }
      Add(x, Product(gate, ToMatrix(p.down)));
    }
    const HeadParameters p = HeadOf(config, parameter);
    const Matrix logits =
        Product(NaiveNorm(x, ToMatrix(p.norm), config.norm_eps), ToMatrix(p.projection));
    for (size_t t = 0; t < logits.size(); ++t) {
      double sum = 0;
      for (const double v : logits[t]) sum += std::exp(v);
      const int64_t target = targets[b][static_cast<int64_t>(t)].item<int64_t>();
      loss += std::log(sum) - logits[t][static_cast<size_t>(target)];
    }
  }
  return loss / static_cast<double>(tokens.numel());
}

TEST(LlamaTest, LossAgreesWithLoopsOverDoubles) {
  for (const bool tied : {false, true}) {
    LlamaConfig config = kTiny;
    config.tie_head = tied;
    const PlainModel model(config);
    const Rotary rotary(16, config.head_dim(), config.rope_theta);
    const at::Tensor tokens = Tokens(2, 9, config.vocab_size, 1);
    const at::Tensor targets = Tokens(2, 9, config.vocab_size, 2);
    EXPECT_NEAR(model.Loss(rotary, tokens, targets).item<double>(),
                NaiveLoss(model, tokens, targets), 1e-5);
  }
}

TEST(LlamaTest, GradientsAgreeWithFiniteDifferences) {
  const PlainModel model(kTiny);
  const Rotary rotary(16, kTiny.head_dim(), kTiny.rope_theta);
  const at::Tensor tokens = Tokens(2, 9, kTiny.vocab_size, 1);
  const at::Tensor targets = Tokens(2, 9, kTiny.vocab_size, 2);
  model.Loss(rotary, tokens, targets).backward();
  for (const auto& unit : model.tensors) {
    for (const at::Tensor& tensor : unit) {
      // Along the gradient itself the loss changes by |gradient|^2 per unit of length.
      const at::Tensor gradient = tensor.grad().clone();
      const double squares = gradient.square().sum().item<double>();
      ASSERT_GT(squares, 0);
      const double h = 2e-3 / std::sqrt(squares);
      const at::Tensor values = tensor.detach();
      const at::Tensor kept = values.clone();
      values.copy_(kept.add(gradient, h));
      const double above = NaiveLoss(model, tokens, targets);
      values.copy_(kept.add(gradient, -h));
      const double below = NaiveLoss(model, tokens, targets);
      values.copy_(kept);
      EXPECT_NEAR((above - below) / (2 * h) / squares, 1, 3e-3);
    }
  }
}

TEST(LlamaTest, BlocksOfQueriesChangeNothing) {
  // 600 rows of queries and group 3: several blocks, the last one short.
  constexpr AttentionShape kShape{.heads = 6, .kv_heads = 2};
  const Rotary rotary(300, 8, 10000);
  PlainModel model({.vocab_size = 300, .hidden = 48, .layers = 1, .heads = 6, .kv_heads = 2});
  const at::Tensor x = model(0, 0).detach().reshape({1, 300, 48});
  std::vector<at::Tensor> inputs = {x.mul(3), x.narrow(2, 0, 16).mul(-2), x.narrow(2, 20, 16)};
  for (at::Tensor& input : inputs) input = input.contiguous().set_requires_grad(true);
  const at::Tensor y = CausalAttention(inputs[0], inputs[1], inputs[2], rotary, kShape);
  Matrix q = ToMatrix(inputs[0]), k = ToMatrix(inputs[1]);
  NaiveRotate(q, 8, 10000);
  NaiveRotate(k, 8, 10000);
  const Matrix want = NaiveAttention(q, k, ToMatrix(inputs[2]), 6, 2), got = ToMatrix(y);
  for (size_t t = 0; t < want.size(); ++t) {
    for (size_t i = 0; i < want[t].size(); ++i) ASSERT_NEAR(got[t][i], want[t][i], 1e-5) << t;
  }
  // Along the gradient of half the sum of squares, as above.
  y.square().sum().mul(0.5).backward();
  const auto half_squares = [&] {
    Matrix turned_q = ToMatrix(inputs[0]), turned_k = ToMatrix(inputs[1]);
    NaiveRotate(turned_q, 8, 10000);
    NaiveRotate(turned_k, 8, 10000);
    double sum = 0;
    for (const auto& row : NaiveAttention(turned_q, turned_k, ToMatrix(inputs[2]), 6, 2)) {
      for (const double v : row) sum += v * v / 2;
    }
    return sum;
  };
  for (const at::Tensor& input : inputs) {
    const at::Tensor gradient = input.grad().clone(), values = input.detach();
    const at::Tensor kept = values.clone();
    const double squares = gradient.square().sum().item<double>();
    const double h = 1e-2 / std::sqrt(squares);
    values.copy_(kept.add(gradient, h));
    const double above = half_squares();
    values.copy_(kept.add(gradient, -h));
    const double below = half_squares();
    values.copy_(kept);
    EXPECT_NEAR((above - below) / (2 * h) / squares, 1, 1e-3);
  }
}

TEST(LlamaTest, HalfPrecisionStaysClose) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const PlainModel exact(kTiny), rounded(kTiny, dtype);
    const Rotary rotary(16, kTiny.head_dim(), kTiny.rope_theta);
    const at::Tensor tokens = Tokens(2, 16, kTiny.vocab_size, 3);
    const at::Tensor targets = Tokens(2, 16, kTiny.vocab_size, 4);
    const at::Tensor a = exact.Loss(rotary, tokens, targets);
    const at::Tensor b = rounded.Loss(rotary, tokens, targets);
    EXPECT_NEAR(a.item<double>(), b.item<double>(), 0.02);
    a.backward();
    b.backward();
    for (size_t unit = 0; unit < exact.tensors.size(); ++unit) {
      for (size_t i = 0; i < exact.tensors[unit].size(); ++i) {
        const at::Tensor want = exact.tensors[unit][i].grad();
        const at::Tensor error = rounded.tensors[unit][i].grad().to(at::kFloat).sub(want);
        EXPECT_LT(error.norm().item<double>(), 0.05 * want.norm().item<double>());
      }
    }
  }
}

TEST(LlamaTest, CacheContinuesWhereTheSequenceStopped) {
  const PlainModel model(kTiny);
  const Rotary rotary(16, kTiny.head_dim(), kTiny.rope_theta);
  const at::Tensor tokens = Tokens(1, 12, kTiny.vocab_size, 5);
  const c10::InferenceMode no_gradients;
  at::Tensor x = Embed(EmbeddingParameter(kTiny, model.parameters()), tokens);
  at::Tensor cached = x;
  for (int64_t layer = 0; layer < kTiny.layers; ++layer) {
    const BlockParameters p = BlockOf(kTiny, model.parameters(), layer);
    AttentionCache cache{at::empty({2, 16, 6}), at::empty({2, 16, 6})};
    std::vector<at::Tensor> parts;
    for (const auto& [begin, count] : {std::pair{0, 5}, {5, 1}, {6, 6}}) {
      parts.push_back(CachedBlock(kTiny, rotary, p, cached.narrow(1, begin, count), begin, cache));
    }
    cached = at::cat(parts, 1);
    x = Block(kTiny, rotary, p, x);
    EXPECT_LT(x.sub(cached).abs().max().item<float>(), 1e-5);
  }
}

TEST(LlamaTest, EvaluationLeavesTheLogitsAlone) {
  const at::Tensor logits = Tokens(3, 8, 100, 6).to(at::kFloat);
  const at::Tensor kept = logits.clone();
  CrossEntropy(logits, Tokens(1, 3, 8, 7).reshape({3}));
  EXPECT_TRUE(logits.equal(kept));
}

TEST(LlamaConfigTest, AnyStretchOfInitialValuesIsTheSame) {
  const zero::ParameterSpec spec{"model.layers.1.mlp.down_proj.weight", {24, 20}};
  std::vector<float> whole(480), part(100);
  FillInitial(kTiny, 3, spec, 0, whole);
  FillInitial(kTiny, 3, spec, 77, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 77));
  double squares = 0;
  for (const float v : whole) squares += double{v} * v;
  EXPECT_NEAR(std::sqrt(squares / 480), 0.02 / 2, 0.001);
}

TEST(LlamaConfigTest, NamesAreUniqueAndHuggingFaces) {
  std::set<std::string> names;
  size_t count = 0;
  for (const zero::UnitSpec& unit : LlamaUnits(kTiny)) {
    for (const zero::ParameterSpec& parameter : unit.parameters) {
      names.insert(parameter.name);
      ++count;
    }
  }
  EXPECT_EQ(names.size(), count);
  for (const char* name : {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight",
                           "model.layers.1.self_attn.k_proj.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

}  // namespace
}  // namespace thinwire::train
