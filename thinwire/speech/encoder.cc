#include "thinwire/speech/encoder.h"

#include <algorithm>
#include <array>

#include "thinwire/base/checked.h"
#include "thinwire/kernels/decoder_rows.h"

namespace thinwire::speech {
namespace {

constexpr auto kGelu = kernels::Activation::kGeluErf;
constexpr int64_t kRowsAtOnce = 64;
// Floats behind the last frame that the first convolution's filled-up rows reach.
constexpr int64_t kSlack = 32;

}  // namespace

Encoder::Encoder(const WhisperSpec& spec, const WhisperWeights& weights, ThreadTeam& team,
                 MemoryPlan& plan)
    : spec_(spec),
      weights_(weights),
      team_(team),
      projector_(team),
      cache_({.kv_heads = spec.encoder_heads, .dim = spec.hidden / spec.encoder_heads}, 1,
             spec.audio_positions, team) {
  const int64_t positions = spec.audio_positions, hidden = spec.hidden;
  const auto add = [&plan](int64_t rows, int64_t columns, std::span<float>& array) {
    plan.Add("encoder", CheckedMul(rows, columns, "encoder"), array);
  };
  add(1, (spec.frames() + 2) * spec.mels + kSlack, input_);
  add(1, std::max((spec.frames() + 2) * hidden, positions * spec.feed_forward), inner_);
  for (std::span<float>* const array : {&x_, &normed_, &query_, &key_, &value_}) {
    add(positions, hidden, *array);
  }
  projector_.Expect(weights.first_convolution(), spec.frames());
  projector_.Expect(weights.second_convolution(), positions);
  for (const EncoderLayer& layer : weights.encoder()) {
    for (const Linear* linear : {&layer.self.query, &layer.self.key, &layer.self.value,
                                 &layer.self.output, &layer.feed.up, &layer.feed.down}) {
      projector_.Expect(*linear, positions);
    }
  }
  projector_.Plan(plan);
  cache_.Plan("encoder", plan);
}

// Of three rows each, the rows beside the first and the last being zeros; the second one moves on
// by two rows. Rows lie end to end, so those three are one row of a product.
void Encoder::Convolve() {
  const int64_t frames = spec_.frames(), hidden = spec_.hidden;
  float* const inner = inner_.data() + hidden;
  std::fill_n(inner_.data(), hidden, 0.0f);
  std::fill_n(inner + frames * hidden, hidden, 0.0f);
  const std::array first = {ProductOf(weights_.first_convolution(), inner)};
  projector_.Run(first, frames, input_.data(), spec_.mels);
  team_.Run(frames, kRowsAtOnce, [&](int64_t begin, int64_t end, int) {
    kernels::Activate(context_, kGelu,
                      {inner + begin * hidden, static_cast<size_t>((end - begin) * hidden)});
  });
  const std::array second = {ProductOf(weights_.second_convolution(), x_.data())};
  projector_.Run(second, spec_.audio_positions, inner_.data(), 2 * hidden);
  team_.Run(spec_.audio_positions, kRowsAtOnce, [&](int64_t begin, int64_t end, int) {
    const auto width = static_cast<size_t>(hidden);
    for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
      const std::span<float> x = x_.subspan(row * width, width);
      const std::span<float> position = normed_.subspan(row * width, width);
      kernels::Activate(context_, kGelu, x);
      weights_.audio_positions().DecodeRow(context_, static_cast<int64_t>(row), position);
      kernels::AddTo(context_, position, x);
    }
  });
}

void Encoder::Attention(const AttentionWeights& weights) {
  const int64_t hidden = spec_.hidden, positions = spec_.audio_positions;
  const std::array products = {ProductOf(weights.query, query_.data()),
                               ProductOf(weights.key, key_.data()),
                               ProductOf(weights.value, value_.data())};
  projector_.Run(products, positions, normed_.data(), hidden, [&](int64_t begin, int64_t end) {
    Normalize(context_, weights.norm, end - begin, x_.data() + begin * hidden,
              normed_.data() + begin * hidden);
  });
  cache_.Store(0, key_.data(), value_.data());
  cache_.Attend(0, positions, query_.data());
  const std::array output = {ProductOf(weights.output, x_.data(), true)};
  projector_.Run(output, positions, query_.data(), hidden);
}

void Encoder::FeedForward(const FeedForwardWeights& weights) {
  const int64_t hidden = spec_.hidden, width = spec_.feed_forward,
                positions = spec_.audio_positions;
  const std::array up = {ProductOf(weights.up, inner_.data())};
  projector_.Run(up, positions, normed_.data(), hidden, [&](int64_t begin, int64_t end) {
    Normalize(context_, weights.norm, end - begin, x_.data() + begin * hidden,
              normed_.data() + begin * hidden);
  });
  const std::array down = {ProductOf(weights.down, x_.data(), true)};
  projector_.Run(down, positions, inner_.data(), width, [&](int64_t begin, int64_t end) {
    kernels::Activate(context_, kGelu,
                      inner_.subspan(static_cast<size_t>(begin * width),
                                     static_cast<size_t>((end - begin) * width)));
  });
}

std::span<const float> Encoder::Run() {
  cache_.NumberPages();
  Convolve();
  for (const EncoderLayer& layer : weights_.encoder()) {
    Attention(layer.self);
    FeedForward(layer.feed);
  }
  team_.Run(spec_.audio_positions, kRowsAtOnce, [&](int64_t begin, int64_t end, int) {
    const int64_t at = begin * spec_.hidden;
    Normalize(context_, weights_.encoder_norm(), end - begin, x_.data() + at, x_.data() + at);
  });
  return x_;
}

}  // namespace thinwire::speech
