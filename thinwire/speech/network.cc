#include "thinwire/speech/network.h"

#include <algorithm>
#include <cmath>

#include "thinwire/base/checked.h"
#include "thinwire/kernels/decoder_rows.h"

namespace thinwire::speech {
namespace {

constexpr float kEpsilon = 1e-5f;
// Queries of a head that share a pass over its keys and values. Six rows make a tile.
constexpr int64_t kQueriesAtOnce = 60;
// Positions that one thread stores at a time: whole pages.
constexpr int64_t kStoredAtOnce = 4 * kernels::kPagePositions;

}  // namespace

void Normalize(const ExecContext& context, const NormWeights& norm, int64_t rows, const float* x,
               float* y) {
  kernels::LayerNorm(context, {.rows = rows, .columns = static_cast<int64_t>(norm.weight.size())},
                     x, norm.weight.data(), norm.bias.data(), kEpsilon, y);
}

SoundCache::SoundCache(const kernels::HeadsShape& heads, int64_t layers, int64_t positions,
                       ThreadTeam& team)
    : heads_(heads),
      layers_(layers),
      positions_(positions),
      page_count_((positions + kernels::kPagePositions - 1) / kernels::kPagePositions),
      team_(team) {}

void SoundCache::Plan(std::string_view what, MemoryPlan& plan) {
  const int64_t bytes =
      CheckedMul(CheckedMul(layers_, page_count_, what), kernels::PageBytes(heads_), what);
  plan.Add(what, bytes, memory_);
  plan.Add(what, page_count_, pages_);
  scratch_floats_ = kernels::AttentionScratch(heads_);
  plan.Add(what, CheckedMul(team_.threads(), scratch_floats_, what), scratch_);
}

void SoundCache::NumberPages() {
  for (size_t page = 0; page < pages_.size(); ++page) pages_[page] = static_cast<int32_t>(page);
}

kernels::CachedSequence SoundCache::Layer(int64_t layer) const {
  return {.layer = memory_.data() + layer * page_count_ * kernels::PageBytes(heads_),
          .pages = pages_};
}

void SoundCache::Store(int64_t layer, const float* keys, const float* values) {
  const int64_t columns = heads_.kv_heads * heads_.dim;
  team_.Run(positions_, kStoredAtOnce, [&](int64_t begin, int64_t end, int) {
    kernels::StoreKeysValues(context_, heads_, Layer(layer), begin, end - begin,
                             keys + begin * columns, values + begin * columns, columns);
  });
}

void SoundCache::Attend(int64_t layer, int64_t rows, float* x) {
  const int64_t columns = heads_.kv_heads * heads_.dim;
  const int64_t pieces = (rows + kQueriesAtOnce - 1) / kQueriesAtOnce;
  // All pieces of a head, then those of the next: its keys and values stay in the cache.
  team_.Run(heads_.kv_heads * pieces, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i / pieces, row = i % pieces * kQueriesAtOnce;
      float* const queries = x + row * columns + head * heads_.dim;
      kernels::Attend(context_, heads_, Layer(layer), head,
                      {.queries = queries,
                       .out = queries,
                       .stride = columns,
                       .tokens = std::min(kQueriesAtOnce, rows - row),
                       .visible = positions_,
                       .scale = 1.0f / std::sqrt(static_cast<float>(heads_.dim))},
                      scratch_.subspan(static_cast<size_t>(thread * scratch_floats_),
                                       static_cast<size_t>(scratch_floats_)));
    }
  });
}

}  // namespace thinwire::speech
