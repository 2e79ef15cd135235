#include "thinwire/speech/decoder.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "thinwire/base/checked.h"
#include "thinwire/kernels/decoder_rows.h"

namespace thinwire::speech {
namespace {

// What the cache needs to know of a decoder.
infer::DecoderSpec CacheSpec(const WhisperSpec& spec) {
  infer::DecoderSpec cache;
  cache.layers = spec.decoder_layers;
  cache.kv_heads = spec.decoder_heads;
  cache.head_dim = spec.hidden / spec.decoder_heads;
  return cache;
}

// Every running sequence may be as long as any with pages of its own.
infer::KvCapacity Capacity(const WhisperSpec& spec, const DecoderLimits& limits) {
  const int64_t pages = infer::KvCache::PagesFor(spec.text_positions);
  return {.sequences = limits.sequences,
          .positions = CheckedMul(limits.running, pages * kernels::kPagePositions, "sequences")};
}

}  // namespace

Decoder::Decoder(const WhisperSpec& spec, const WhisperWeights& weights, ThreadTeam& team,
                 const DecoderLimits& limits, MemoryPlan& plan)
    : spec_(spec),
      weights_(weights),
      team_(team),
      limits_(limits),
      heads_{.kv_heads = spec.decoder_heads, .dim = spec.hidden / spec.decoder_heads},
      projector_(team),
      sound_(heads_, spec.decoder_layers, spec.audio_positions, team),
      cache_(CacheSpec(spec), Capacity(spec, limits), plan) {
  THINWIRE_CHECK(limits.running >= 1 && limits.running <= limits.sequences);
  const int64_t hidden = spec.hidden, rows = spec.text_positions;
  const int64_t outputs = std::max<int64_t>(2, limits.running);
  const auto add = [&plan](int64_t count, int64_t columns, std::span<float>& array) {
    plan.Add("decoder", CheckedMul(count, columns, "decoder"), array);
  };
  add(spec.audio_positions, hidden, sound_keys_);
  add(spec.audio_positions, hidden, sound_values_);
  for (std::span<float>* const array : {&x_, &normed_, &query_, &key_, &value_}) {
    add(rows, hidden, *array);
  }
  add(rows, spec.feed_forward, inner_);
  add(outputs, hidden, last_);
  add(outputs, spec.vocabulary, logits_);
  scratch_floats_ = kernels::AttentionScratch(heads_);
  add(team.threads(), scratch_floats_, scratch_);
  for (const DecoderLayer& layer : weights.decoder()) {
    for (const Linear* linear :
         {&layer.self.query, &layer.self.key, &layer.self.value, &layer.self.output,
          &layer.cross.query, &layer.cross.output, &layer.feed.up, &layer.feed.down}) {
      projector_.Expect(*linear, rows);
    }
    projector_.Expect(layer.cross.key, spec.audio_positions);
    projector_.Expect(layer.cross.value, spec.audio_positions);
  }
  projector_.Expect(weights.embedding(), outputs);
  projector_.Plan(plan);
  sound_.Plan("keys and values of sound", plan);
  pieces_.reserve(static_cast<size_t>(limits.sequences));
}

void Decoder::Hear(std::span<const float> encoded) {
  sound_.NumberPages();
  for (size_t i = 0; i < weights_.decoder().size(); ++i) {
    const AttentionWeights& cross = weights_.decoder()[i].cross;
    const std::array products = {ProductOf(cross.key, sound_keys_.data()),
                                 ProductOf(cross.value, sound_values_.data())};
    projector_.Run(products, spec_.audio_positions, encoded.data(), spec_.hidden);
    sound_.Store(static_cast<int64_t>(i), sound_keys_.data(), sound_values_.data());
  }
}

void Decoder::Begin(std::span<const int32_t> tokens, std::span<const Segment> segments) {
  pieces_.clear();
  rows_ = 0;
  const auto hidden = static_cast<size_t>(spec_.hidden);
  for (const Segment& segment : segments) {
    const int64_t first = cache_.Length(segment.sequence);
    THINWIRE_CHECK(first + segment.tokens <= spec_.text_positions &&
                       rows_ + segment.tokens <= spec_.text_positions,
                   first, " + ", segment.tokens);
    const bool fits = cache_.Extend(segment.sequence, segment.tokens);
    THINWIRE_CHECK(fits, "pages for sequence ", segment.sequence);
    pieces_.push_back(
        {.sequence = segment.sequence, .row = rows_, .first = first, .tokens = segment.tokens});
    for (int64_t t = 0; t < segment.tokens; ++t, ++rows_) {
      const auto row = static_cast<size_t>(rows_);
      const std::span<float> x = x_.subspan(row * hidden, hidden);
      const std::span<float> position = normed_.subspan(row * hidden, hidden);
      weights_.embedding().weight.DecodeRow(context_, tokens[row], x);
      weights_.text_positions().DecodeRow(context_, first + t, position);
      kernels::AddTo(context_, position, x);
    }
  }
  THINWIRE_CHECK(rows_ == static_cast<int64_t>(tokens.size()), rows_, " of ", tokens.size());
}

void Decoder::SelfAttention(const AttentionWeights& weights, int64_t layer) {
  const int64_t hidden = spec_.hidden;
  const std::array products = {ProductOf(weights.query, query_.data()),
                               ProductOf(weights.key, key_.data()),
                               ProductOf(weights.value, value_.data())};
  projector_.Run(products, rows_, normed_.data(), hidden, [&](int64_t begin, int64_t end) {
    Normalize(context_, weights.norm, end - begin, x_.data() + begin * hidden,
              normed_.data() + begin * hidden);
  });
  const auto pieces = static_cast<int64_t>(pieces_.size());
  for (const Piece& piece : pieces_) {
    const int64_t at = piece.row * hidden;
    kernels::StoreKeysValues(context_, heads_, cache_.Layer(layer, piece.sequence), piece.first,
                             piece.tokens, key_.data() + at, value_.data() + at, hidden);
  }
  team_.Run(pieces * spec_.decoder_heads, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      const Piece& piece = pieces_[static_cast<size_t>(i / spec_.decoder_heads)];
      const int64_t head = i % spec_.decoder_heads;
      float* const queries = query_.data() + piece.row * hidden + head * heads_.dim;
      kernels::Attend(context_, heads_, cache_.Layer(layer, piece.sequence), head,
                      {.queries = queries,
                       .out = queries,
                       .stride = hidden,
                       .tokens = piece.tokens,
                       .first = piece.first,
                       .scale = 1.0f / std::sqrt(static_cast<float>(heads_.dim))},
                      scratch_.subspan(static_cast<size_t>(thread * scratch_floats_),
                                       static_cast<size_t>(scratch_floats_)));
    }
  });
  const std::array output = {ProductOf(weights.output, x_.data(), true)};
  projector_.Run(output, rows_, query_.data(), hidden);
}

void Decoder::CrossAttention(const AttentionWeights& weights, int64_t layer) {
  const int64_t hidden = spec_.hidden;
  const std::array query = {ProductOf(weights.query, query_.data())};
  projector_.Run(query, rows_, normed_.data(), hidden, [&](int64_t begin, int64_t end) {
    Normalize(context_, weights.norm, end - begin, x_.data() + begin * hidden,
              normed_.data() + begin * hidden);
  });
  sound_.Attend(layer, rows_, query_.data());
  const std::array output = {ProductOf(weights.output, x_.data(), true)};
  projector_.Run(output, rows_, query_.data(), hidden);
}

void Decoder::FeedForward(const FeedForwardWeights& weights) {
  const int64_t hidden = spec_.hidden, width = spec_.feed_forward;
  const std::array up = {ProductOf(weights.up, inner_.data())};
  projector_.Run(up, rows_, normed_.data(), hidden, [&](int64_t begin, int64_t end) {
    Normalize(context_, weights.norm, end - begin, x_.data() + begin * hidden,
              normed_.data() + begin * hidden);
  });
  const std::array down = {ProductOf(weights.down, x_.data(), true)};
  projector_.Run(down, rows_, inner_.data(), width, [&](int64_t begin, int64_t end) {
    kernels::Activate(context_, kernels::Activation::kGeluErf,
                      inner_.subspan(static_cast<size_t>(begin * width),
                                     static_cast<size_t>((end - begin) * width)));
  });
}

void Decoder::Forward(std::span<const int32_t> tokens, std::span<const Segment> segments) {
  Begin(tokens, segments);
  for (size_t i = 0; i < weights_.decoder().size(); ++i) {
    const DecoderLayer& layer = weights_.decoder()[i];
    SelfAttention(layer.self, static_cast<int64_t>(i));
    CrossAttention(layer.cross, static_cast<int64_t>(i));
    FeedForward(layer.feed);
  }
}

std::span<float> Decoder::Logits(std::span<const int64_t> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  const auto hidden = static_cast<size_t>(spec_.hidden);
  THINWIRE_CHECK(rows.size() * hidden <= last_.size(), count, " rows of logits");
  for (size_t i = 0; i < rows.size(); ++i) {
    THINWIRE_CHECK(rows[i] >= 0 && rows[i] < rows_, "row ", rows[i], " of ", rows_);
    std::ranges::copy(x_.subspan(static_cast<size_t>(rows[i]) * hidden, hidden),
                      last_.subspan(i * hidden).begin());
  }
  if (count > 0) {
    const std::array head = {ProductOf(weights_.embedding(), logits_.data())};
    projector_.Run(head, count, last_.data(), spec_.hidden, [&](int64_t begin, int64_t end) {
      const auto at = begin * spec_.hidden;
      Normalize(context_, weights_.decoder_norm(), end - begin, last_.data() + at,
                last_.data() + at);
    });
  }
  return logits_.first(static_cast<size_t>(count * spec_.vocabulary));
}

std::span<float> Decoder::Repeat(std::span<const float> logits, int64_t count) {
  THINWIRE_CHECK(static_cast<size_t>(count) * logits.size() <= logits_.size(), count);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    std::ranges::copy(logits, logits_.subspan(i * logits.size()).begin());
  }
  return logits_.first(static_cast<size_t>(count) * logits.size());
}

}  // namespace thinwire::speech
