#include "thinwire/train/generate.h"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "thinwire/base/checked.h"
#include "thinwire/base/error.h"
#include "thinwire/io/file.h"
#include "thinwire/train/checkpoints.h"
#include "thinwire/train/data.h"
#include "thinwire/train/llama.h"
#include "thinwire/zero/checkpoint.h"

namespace thinwire::train {

int64_t SampleToken(std::span<const float> logits, const SamplingOptions& options, int64_t index) {
  if (std::ranges::any_of(logits, [](float x) { return std::isnan(x); })) {
    throw UsageError(
        "the model's output is not a number: the checkpoint holds a model that diverged");
  }
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](int64_t token) { return logits[static_cast<size_t>(token)]; };
  // Ties go to the smaller token, so that the result is the same everywhere.
  std::ranges::sort(order, [&](int64_t a, int64_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  });
  if (options.temperature == 0) return order[0];
  if (options.top_k > 0 && options.top_k < std::ssize(order)) {
    order.resize(static_cast<size_t>(options.top_k));
  }
  std::vector<double> weights;
  for (const int64_t token : order) {
    weights.push_back(
        std::exp((double{logit(token)} - double{logit(order[0])}) / options.temperature));
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double left = CounterRandom(options.seed).Uniform(static_cast<uint64_t>(index)) * sum;
  for (size_t i = 0; i < order.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order.back();
}

class Generator::Impl {
 public:
  explicit Impl(const std::string& path)
      : checkpoint_(io::RealFileSystem(), NewestCheckpoint(path)),
        config_(ConfigOf(checkpoint_.extra(), checkpoint_.directory())),
        window_(std::max<int64_t>(2, config_.data.sequence_length)),
        rotary_(window_, config_.model.head_dim(), config_.model.rope_theta) {
    const auto units = LlamaUnits(config_.model);
    std::vector<std::vector<at::Tensor>> tensors;
    for (const zero::UnitSpec& unit : units) {
      tensors.emplace_back();
      for (const zero::ParameterSpec& spec : unit.parameters) tensors.back().push_back(Load(spec));
    }
    const ParameterOf parameter = [&](int unit, int index) {
      return tensors[static_cast<size_t>(unit)][static_cast<size_t>(index)];
    };
    embedding_ = EmbeddingParameter(config_.model, parameter);
    head_ = HeadOf(config_.model, parameter);
    for (int64_t layer = 0; layer < config_.model.layers; ++layer) {
      blocks_.push_back(BlockOf(config_.model, parameter, layer));
      const std::array<int64_t, 3> shape = {config_.model.kv_heads, window_,
                                            config_.model.head_dim()};
      caches_.push_back({at::empty(shape, at::kFloat), at::empty(shape, at::kFloat)});
    }
  }

  const std::string& checkpoint() const { return checkpoint_.directory(); }

  void Generate(std::string_view prompt, int64_t tokens, const SamplingOptions& options,
                const std::function<bool(char)>& out) {
    const c10::InferenceMode no_gradients;
    // A text begins where another ended.
    std::vector<int64_t> text = {kEndOfDocument};
    for (const char c : prompt) text.push_back(static_cast<unsigned char>(c));
    int64_t seen = 0;  // tokens of `text` that the caches hold, from `begin`
    int64_t begin = 0;
    for (int64_t i = 0; i < tokens; ++i) {
      if (std::ssize(text) - begin > window_) {
        begin = std::ssize(text) - window_ / 2;
        seen = 0;
      }
      const std::span<const int64_t> fresh =
          std::span(text).subspan(static_cast<size_t>(begin + seen));
      const at::Tensor logits = Forward(fresh, seen);
      seen += std::ssize(fresh);
      const int64_t token =
          SampleToken({logits.data_ptr<float>(), static_cast<size_t>(kByteVocabulary)}, options, i);
      if (token == kEndOfDocument || !out(static_cast<char>(token))) return;
      text.push_back(token);
    }
  }

 private:
  at::Tensor Load(const zero::ParameterSpec& spec) const {
    const std::vector<float> values = checkpoint_.LoadFullParameter(spec.name);
    at::Tensor tensor = at::empty(spec.shape, at::kFloat);
    if (std::ssize(values) != tensor.numel()) {
      throw UsageError(StrCat(checkpoint_.directory(), ": ", spec.name, " has ", values.size(),
                              " elements, the config wants ", tensor.numel()));
    }
    std::ranges::copy(values, tensor.data_ptr<float>());
    return tensor;
  }

  // The logits of the token after `fresh`, of which `seen` precede in the caches.
  at::Tensor Forward(std::span<const int64_t> fresh, int64_t seen) {
    at::Tensor tokens = at::empty({1, static_cast<int64_t>(fresh.size())}, at::kLong);
    std::ranges::copy(fresh, tokens.data_ptr<int64_t>());
    at::Tensor x = Embed(embedding_, tokens);
    for (size_t layer = 0; layer < blocks_.size(); ++layer) {
      x = CachedBlock(config_.model, rotary_, blocks_[layer], x, seen, caches_[layer]);
    }
    return Logits(config_.model, head_, x.narrow(1, x.size(1) - 1, 1));
  }

  zero::Checkpoint checkpoint_;
  Config config_;
  int64_t window_;
  Rotary rotary_;
  at::Tensor embedding_;
  std::vector<BlockParameters> blocks_;
  HeadParameters head_;
  std::vector<AttentionCache> caches_;
};

Generator::Generator(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
Generator::~Generator() = default;
const std::string& Generator::checkpoint() const { return impl_->checkpoint(); }
void Generator::Generate(std::string_view prompt, int64_t tokens, const SamplingOptions& options,
                         const std::function<bool(char)>& out) {
  impl_->Generate(prompt, tokens, options, out);
}

}  // namespace thinwire::train
