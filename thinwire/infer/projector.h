// Linear layers and their products with rows of activations, over planned memory: what every model
// here does in between.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "thinwire/base/context.h"
#include "thinwire/base/memory_plan.h"
#include "thinwire/base/thread_team.h"
#include "thinwire/blocks/product.h"

namespace thinwire::infer {

// y = W x + bias; no bias where it is empty. Of no rows where a model has none.
struct Linear {
  blocks::PackedMatrix weight;
  std::span<const float> bias;
};

// The bias is empty where norms have none.
struct NormWeights {
  std::span<const float> weight;
  std::span<const float> bias;
};

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
    // Mostly one form; matrices of integers and of floats may stand in one layer, though.
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

}  // namespace thinwire::infer
