#include "thinwire/infer/decoder.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "thinwire/base/checked.h"
#include "thinwire/base/error.h"
#include "thinwire/kernels/attention.h"
#include "thinwire/kernels/decoder_rows.h"

namespace thinwire::infer {
namespace {

// Tokens of a piece: enough to share a pass over the keys, few enough to share out.
constexpr int64_t kPieceTokens = 32;
// Calls body for every linear layer of the model.
template <typename Body>
void ForEachLinear(const DecoderWeights& weights, const Body& body) {
  for (const LayerWeights& layer : weights.layers()) {
    for (const Linear* linear : {&layer.query, &layer.key, &layer.value, &layer.output, &layer.gate,
                                 &layer.up, &layer.down}) {
      body(*linear);
    }
  }
  body(weights.head());
}

}  // namespace

Decoder::Decoder(const DecoderSpec& spec, const DecoderWeights& weights, ThreadTeam& team,
                 const DecoderLimits& limits, MemoryPlan& plan)
    : spec_(spec),
      weights_(weights),
      team_(team),
      limits_(limits),
      projector_(team),
      cache_(spec, limits.cache, plan) {
  if (limits.batch < 1 || limits.outputs < 1) {
    throw UsageError(StrCat("batch: ", limits.batch, ", outputs: ", limits.outputs,
                            "; at least 1 of each is needed"));
  }
  Plan(plan);
}

void Decoder::Plan(MemoryPlan& plan) {
  const int64_t batch = limits_.batch, threads = team_.threads();
  const auto add = [&plan](int64_t rows, int64_t columns, auto& array) {
    const std::string_view what = "activations";
    plan.Add(what, CheckedMul(rows, columns, what), array);
  };
  add(batch, spec_.hidden, x_);
  add(batch, spec_.hidden, normed_);
  add(batch, spec_.query_columns(), query_);
  add(batch, spec_.kv_columns(), key_);
  add(batch, spec_.kv_columns(), value_);
  if (spec_.gated) add(batch, spec_.feed_forward, gate_);
  add(batch, spec_.feed_forward, up_);
  add(1, spec_.turned / 2, frequencies_);
  add(batch, spec_.turned / 2, cosines_);
  add(batch, spec_.turned / 2, sines_);
  add(limits_.outputs, spec_.hidden, last_);
  add(limits_.outputs, spec_.vocabulary, logits_);
  ForEachLinear(weights_, [&](const Linear& linear) { projector_.Expect(linear, batch); });
  projector_.Plan(plan);
  attention_scratch_floats_ = kernels::AttentionScratch(cache_.heads());
  add(threads, attention_scratch_floats_, attention_scratch_);
  // Every segment may end in a piece that is not full.
  pieces_.reserve(static_cast<size_t>(batch + limits_.cache.sequences));
}

void Decoder::CheckPass(std::span<const int32_t> tokens, std::span<const Segment> segments) const {
  int64_t sum = 0;
  for (const Segment& segment : segments) {
    THINWIRE_CHECK(segment.tokens >= 0, segment.tokens);
    sum += segment.tokens;
    const int64_t end = cache_.Length(segment.sequence) + segment.tokens;
    if (!spec_.rotary && end > spec_.context) {
      throw UsageError(
          StrCat("context: ", end, " positions are needed, the model has ", spec_.context));
    }
  }
  THINWIRE_CHECK(sum == static_cast<int64_t>(tokens.size()) && sum <= limits_.batch, sum, " of ",
                 tokens.size(), ", at most ", limits_.batch);
  for (const int32_t token : tokens) {
    if (token < 0 || token >= spec_.vocabulary) {
      throw UsageError(StrCat("token ", token, " is not in the vocabulary of ", spec_.vocabulary));
    }
  }
}

void Decoder::BeginPass(std::span<const Segment> segments) {
  pieces_.clear();
  rows_ = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    const int64_t first = cache_.Length(segment.sequence);
    if (!cache_.Extend(segment.sequence, segment.tokens)) {
      for (size_t k = 0; k < i; ++k) {
        const int64_t sequence = segments[k].sequence;
        cache_.Truncate(sequence, cache_.Length(sequence) - segments[k].tokens);
      }
      throw UsageError(StrCat("context: no room for ", segment.tokens,
                              " more tokens; the cache has ", limits_.cache.positions,
                              " positions for ", cache_.sequences(), " sequences"));
    }
    for (int64_t at = 0; at < segment.tokens; at += kPieceTokens) {
      pieces_.push_back({.sequence = segment.sequence,
                         .row = rows_ + at,
                         .first = first + at,
                         .tokens = std::min(kPieceTokens, segment.tokens - at)});
    }
    rows_ += segment.tokens;
  }
}

void Decoder::Embed(std::span<const int32_t> tokens) {
  const auto hidden = static_cast<size_t>(spec_.hidden);
  team_.Run(static_cast<int64_t>(pieces_.size()), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const Piece& piece = pieces_[static_cast<size_t>(i)];
      for (int64_t t = 0; t < piece.tokens; ++t) {
        const auto row = static_cast<size_t>(piece.row + t);
        const std::span<float> x = x_.subspan(row * hidden, hidden);
        weights_.embedding().DecodeRow(context_, tokens[row], x);
        if (spec_.rotary) continue;
        const std::span<float> position = normed_.subspan(row * hidden, hidden);
        weights_.positions().DecodeRow(context_, piece.first + t, position);
        kernels::AddTo(context_, position, x);
      }
    }
  });
}

// Angles of rotary embedding (Su et al., 2021): position / scale * base^(-2 i / n), and what the
// file divides frequencies by.
void Decoder::Angles() {
  const int64_t half = spec_.turned / 2;
  if (half == 0) return;
  if (frequencies_[0] == 0) {
    const std::span<const float> factors = weights_.rotary_factors();
    for (int64_t i = 0; i < half; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(spec_.turned);
      const double factor = factors.empty() ? 1 : factors[static_cast<size_t>(i)];
      frequencies_[static_cast<size_t>(i)] =
          static_cast<float>(std::pow(spec_.rotary_base, exponent) / (spec_.rotary_scale * factor));
    }
  }
  for (const Piece& piece : pieces_) {
    for (int64_t t = 0; t < piece.tokens; ++t) {
      const auto position = static_cast<float>(piece.first + t);
      const int64_t row = (piece.row + t) * half;
      for (int64_t i = 0; i < half; ++i) {
        const float angle = position * frequencies_[static_cast<size_t>(i)];
        cosines_[static_cast<size_t>(row + i)] = std::cos(angle);
        sines_[static_cast<size_t>(row + i)] = std::sin(angle);
      }
    }
  }
}

void Decoder::Normalize(const NormWeights& norm, const float* x, int64_t begin, int64_t end,
                        float* y) const {
  const kernels::RowShape shape = {.rows = end - begin, .columns = spec_.hidden};
  const int64_t at = begin * spec_.hidden;
  if (spec_.norm == DecoderSpec::Norm::kRootMeanSquare) {
    kernels::RootMeanSquareNorm(context_, shape, x + at, norm.weight.data(), spec_.epsilon, y + at);
  } else {
    kernels::LayerNorm(context_, shape, x + at, norm.weight.data(), norm.bias.data(), spec_.epsilon,
                       y + at);
  }
}

void Decoder::Attention(const LayerWeights& layer, int64_t index) {
  const std::array products = {ProductOf(layer.query, query_.data()),
                               ProductOf(layer.key, key_.data()),
                               ProductOf(layer.value, value_.data())};
  projector_.Run(products, rows_, normed_.data(), spec_.hidden, [&](int64_t begin, int64_t end) {
    Normalize(layer.attention_norm, x_.data(), begin, end, normed_.data());
  });
  const auto pieces = static_cast<int64_t>(pieces_.size());
  team_.Run(pieces, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const Piece& piece = pieces_[static_cast<size_t>(i)];
      float* const keys = key_.data() + piece.row * spec_.kv_columns();
      for (int64_t t = 0; spec_.rotary && t < piece.tokens; ++t) {
        const int64_t row = piece.row + t, angles = row * (spec_.turned / 2);
        kernels::RotaryShape shape = {.heads = spec_.heads,
                                      .dim = spec_.head_dim,
                                      .turned = spec_.turned,
                                      .pairs = spec_.pairs};
        kernels::Rotate(context_, shape, cosines_.data() + angles, sines_.data() + angles,
                        query_.data() + row * spec_.query_columns());
        shape.heads = spec_.kv_heads;
        kernels::Rotate(context_, shape, cosines_.data() + angles, sines_.data() + angles,
                        keys + t * spec_.kv_columns());
      }
      kernels::StoreKeysValues(context_, cache_.heads(), cache_.Layer(index, piece.sequence),
                               piece.first, piece.tokens, keys,
                               value_.data() + piece.row * spec_.kv_columns(), spec_.kv_columns());
    }
  });
  const int64_t group = spec_.heads / spec_.kv_heads;
  // Pieces that see the most keys first, so that the last to end is a short one.
  team_.Run(pieces * spec_.kv_heads, 1, [&](int64_t begin, int64_t, int thread) {
    const Piece& piece = pieces_[static_cast<size_t>(pieces - 1 - begin / spec_.kv_heads)];
    const int64_t head = begin % spec_.kv_heads;
    float* const queries =
        query_.data() + piece.row * spec_.query_columns() + head * group * spec_.head_dim;
    kernels::Attend(
        context_, cache_.heads(), cache_.Layer(index, piece.sequence), head,
        {.queries = queries,
         .out = queries,
         .stride = spec_.query_columns(),
         .tokens = piece.tokens,
         .first = piece.first,
         .group = group,
         .window = spec_.window,
         .scale = 1.0f / std::sqrt(static_cast<float>(spec_.head_dim))},
        attention_scratch_.subspan(static_cast<size_t>(thread * attention_scratch_floats_),
                                   static_cast<size_t>(attention_scratch_floats_)));
  });
  const std::array output = {ProductOf(layer.output, x_.data(), true)};
  projector_.Run(output, rows_, query_.data(), spec_.query_columns());
}

void Decoder::FeedForward(const LayerWeights& layer) {
  std::array<blocks::Product, 2> products = {ProductOf(layer.up, up_.data())};
  if (spec_.gated) products[1] = ProductOf(layer.gate, gate_.data());
  projector_.Run(std::span(products).first(spec_.gated ? 2 : 1), rows_, normed_.data(),
                 spec_.hidden, [&](int64_t begin, int64_t end) {
                   Normalize(layer.feed_norm, x_.data(), begin, end, normed_.data());
                 });
  const std::span<float> inner = spec_.gated ? gate_ : up_;
  const std::array down = {ProductOf(layer.down, x_.data(), true)};
  projector_.Run(down, rows_, inner.data(), spec_.feed_forward, [&](int64_t begin, int64_t end) {
    const auto at = static_cast<size_t>(begin * spec_.feed_forward);
    const auto count = static_cast<size_t>((end - begin) * spec_.feed_forward);
    if (spec_.gated) {
      kernels::ActivateTimes(context_, spec_.activation, inner.subspan(at, count),
                             up_.subspan(at, count));
    } else {
      kernels::Activate(context_, spec_.activation, inner.subspan(at, count));
    }
  });
}

void Decoder::Forward(std::span<const int32_t> tokens, std::span<const Segment> segments) {
  CheckPass(tokens, segments);
  BeginPass(segments);
  Embed(tokens);
  Angles();
  for (int64_t i = 0; i < spec_.layers; ++i) {
    const LayerWeights& layer = weights_.layers()[static_cast<size_t>(i)];
    Attention(layer, i);
    FeedForward(layer);
  }
}

std::span<float> Decoder::Logits(std::span<const int64_t> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  THINWIRE_CHECK(count <= limits_.outputs, count, " rows of logits, at most ", limits_.outputs);
  const auto hidden = static_cast<size_t>(spec_.hidden);
  for (size_t i = 0; i < rows.size(); ++i) {
    THINWIRE_CHECK(rows[i] >= 0 && rows[i] < rows_, "row ", rows[i], " of ", rows_);
    std::ranges::copy(x_.subspan(static_cast<size_t>(rows[i]) * hidden, hidden),
                      last_.subspan(i * hidden).begin());
  }
  if (count > 0) {
    const std::array head = {ProductOf(weights_.head(), logits_.data())};
    projector_.Run(head, count, last_.data(), spec_.hidden, [&](int64_t begin, int64_t end) {
      Normalize(weights_.output_norm(), last_.data(), begin, end, last_.data());
    });
  }
  return logits_.first(static_cast<size_t>(count * spec_.vocabulary));
}

std::span<const float> Decoder::Hidden(int64_t row) {
  THINWIRE_CHECK(row >= 0 && row < rows_, "row ", row, " of ", rows_);
  const auto hidden = static_cast<size_t>(spec_.hidden);
  Normalize(weights_.output_norm(), x_.data() + static_cast<size_t>(row) * hidden, 0, 1,
            last_.data());
  return last_.first(hidden);
}

}  // namespace thinwire::infer
