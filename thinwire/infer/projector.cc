#include "thinwire/infer/projector.h"

#include "thinwire/base/checked.h"

namespace thinwire::infer {
namespace {

// Chunks that a loop over rows of weights is cut into for each thread: one that comes late or is
// held up leaves its share to the others.
constexpr int64_t kChunksPerThread = 8;

}  // namespace

blocks::Product ProductOf(const Linear& linear, float* out, bool add) {
  return {.weights = linear.weight,
          .out = out,
          .stride = linear.weight.rows(),
          .bias = linear.bias.empty() ? nullptr : linear.bias.data(),
          .add = add};
}

void Projector::Expect(const Linear& linear, int64_t rows) {
  if (linear.weight.rows() == 0) return;
  const WeightType type = linear.weight.type();
  const int64_t columns = linear.weight.columns();
  activation_bytes_ =
      std::max(activation_bytes_, blocks::Activations::Bytes(blocks::FormFor(type), rows, columns));
  scratch_bytes_ = std::max(scratch_bytes_, AlignUp(blocks::ScratchBytes(type, columns)));
}

void Projector::Plan(MemoryPlan& plan) {
  plan.Add("activations", activation_bytes_, activations_);
  plan.Add("activations", CheckedMul(team_.threads(), scratch_bytes_, "scratch"), scratch_);
}

void Projector::Multiply(std::span<const blocks::Product> products,
                         const blocks::Activations& activations) {
  const int64_t groups = blocks::Groups(products);
  const int64_t grain = std::max<int64_t>(1, groups / (team_.threads() * kChunksPerThread));
  team_.Run(groups, grain, [&](int64_t begin, int64_t end, int thread) {
    const auto scratch = scratch_.subspan(static_cast<size_t>(thread * scratch_bytes_),
                                          static_cast<size_t>(scratch_bytes_));
    blocks::Multiply(context_, products, activations, begin, end, scratch);
  });
}

}  // namespace thinwire::infer
