// What encoder and decoder do alike: linear layers, norms and attention over planned memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "thinwire/base/context.h"
#include "thinwire/base/memory_plan.h"
#include "thinwire/base/thread_team.h"
#include "thinwire/blocks/product.h"
#include "thinwire/kernels/attention.h"
#include "thinwire/speech/whisper_weights.h"

namespace thinwire::speech {

// y = (x - mean) / sqrt(variance + 1e-5) * weight + bias for rows of norm.weight.size() elements.
void Normalize(const ExecContext& context, const Norm& norm, int64_t rows, const float* x,
               float* y);

blocks::Product ProductOf(const Linear& linear, float* out, bool add = false);

// Runs products for whoever plans memory for them first. Run allocates nothing.
class Projector {
 public:
  explicit Projector(ThreadTeam& team) : team_(team) {}
  Projector(const Projector&) = delete;
  Projector& operator=(const Projector&) = delete;

  // Run will be called with `linear` for up to `rows` rows.
  void Expect(const Linear& linear, int64_t rows);
  // After all Expect.
  void Plan(MemoryPlan& plan);

  // Products with rows of activations, row r at in + r * stride, where prepare(begin, end) makes
  // rows [begin, end) of `in` first, called from several threads. All weights have as many columns;
  // at most three products.
  template <typename Prepare>
  void Run(std::span<const blocks::Product> products, int64_t rows, const float* in, int64_t stride,
           const Prepare& prepare) {
    bool prepared = false;
    for (const auto form : {blocks::ActivationForm::kInt8, blocks::ActivationForm::kFloat}) {
      std::array<blocks::Product, 3> same;
      size_t count = 0;
      for (const blocks::Product& product : products) {
        if (blocks::FormFor(product.weights.type()) == form) same[count++] = product;
      }
      if (count == 0) continue;
      const blocks::Activations activations(form, rows, same[0].weights.columns(), activations_);
      team_.Run(activations.tiles(), 1, [&](int64_t begin, int64_t end, int) {
        if (!prepared) {
          prepare(begin * blocks::kTileTokens, std::min(rows, end * blocks::kTileTokens));
        }
        activations.SetTiles(context_, in, stride, begin, end);
      });
      prepared = true;
      Multiply(std::span(same).first(count), activations);
    }
  }
  void Run(std::span<const blocks::Product> products, int64_t rows, const float* in,
           int64_t stride) {
    Run(products, rows, in, stride, [](int64_t, int64_t) {});
  }

 private:
  void Multiply(std::span<const blocks::Product> products, const blocks::Activations& activations);

  ThreadTeam& team_;
  const ExecContext context_;
  int64_t activation_bytes_ = 0;
  int64_t scratch_bytes_ = 0;  // of one thread
  std::span<std::byte> activations_;
  std::span<std::byte> scratch_;
};

// Keys and values of a sound in one layer or several, in pages one behind the other.
class SoundCache {
 public:
  // Of `positions` positions, which all queries see.
  SoundCache(const kernels::HeadsShape& heads, int64_t layers, int64_t positions, ThreadTeam& team);
  SoundCache(const SoundCache&) = delete;
  SoundCache& operator=(const SoundCache&) = delete;

  void Plan(std::string_view what, MemoryPlan& plan);
  // After Take.
  void NumberPages();

  // Rows of all positions, [position][heads * dim].
  void Store(int64_t layer, const float* keys, const float* values);
  // x = attention with rows of x as queries, [row][heads * dim].
  void Attend(int64_t layer, int64_t rows, float* x);

 private:
  kernels::CachedSequence Layer(int64_t layer) const;

  const kernels::HeadsShape heads_;
  const int64_t layers_, positions_, page_count_;
  ThreadTeam& team_;
  const ExecContext context_;
  int64_t scratch_floats_ = 0;  // of one thread
  std::span<FP16> memory_;
  std::span<int32_t> pages_;
  std::span<float> scratch_;
};

}  // namespace thinwire::speech
