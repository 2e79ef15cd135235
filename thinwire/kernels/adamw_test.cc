#include "thinwire/kernels/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "thinwire/kernels/test_inputs.h"

namespace thinwire::kernels {
namespace {

struct State {
  std::vector<float> grad, master, m, v;

  State(int64_t size, uint64_t key)
      : grad(Floats(size, key)),
        master(Floats(size, key + 1)),
        m(Floats(size, key + 2)),
        v(Floats(size, key + 3)) {}

  // Leaves out the first `skip` elements.
  void Update(Isa isa, const AdamWStep& step, size_t skip = 0) {
    AdamW({isa}, step, std::span<const float>(grad).subspan(skip), std::span(master).subspan(skip),
          std::span(m).subspan(skip), std::span(v).subspan(skip));
  }
};

// The formula of adamw.h, written once more.
void Reference(const AdamWStep& s, State& state, size_t skip = 0) {
  const auto t = static_cast<double>(s.step);
  const auto bias1 = static_cast<float>(1.0 - std::pow(static_cast<double>(s.beta1), t));
  const auto bias2 = static_cast<float>(1.0 - std::pow(static_cast<double>(s.beta2), t));
  for (size_t i = skip; i < state.grad.size(); ++i) {
    const float g = state.grad[i] * s.grad_scale;
    const float m = WithoutPayload(s.beta1 * state.m[i] + (1.0f - s.beta1) * g);
    const float v = WithoutPayload(s.beta2 * state.v[i] + (1.0f - s.beta2) * (g * g));
    float p = state.master[i];
    p = p - s.lr * s.weight_decay * p;
    p = p - (s.lr / bias1) * m / (std::sqrt(v) / std::sqrt(bias2) + s.eps);
    state.master[i] = WithoutPayload(p);
    state.m[i] = m;
    state.v[i] = v;
  }
}

TEST(AdamW, MatchesTheFormulaForEveryTailAndAnyBits) {
  AdamWStep step{.lr = 3e-4f, .weight_decay = 0.1f, .grad_scale = 0.7f};
  for (int64_t size = 0; size <= 200; ++size) {
    step.step = 1 + size * size;
    const size_t skip = static_cast<size_t>(std::min<int64_t>(size, size % 3));
    const State before(size, static_cast<uint64_t>(10 * size));
    State wanted = before;
    Reference(step, wanted, skip);
    for (const Isa isa : SupportedIsas()) {
      State found = before;
      found.Update(isa, step, skip);
      ASSERT_TRUE(SameBits(found.master, wanted.master)) << NameOf(isa) << " size " << size;
      ASSERT_TRUE(SameBits(found.m, wanted.m)) << NameOf(isa) << " size " << size;
      ASSERT_TRUE(SameBits(found.v, wanted.v)) << NameOf(isa) << " size " << size;
      ASSERT_TRUE(SameBits(found.grad, before.grad));
    }
  }
}

// grad = p at every step; the same in fp64, in the form of Loshchilov & Hutter's algorithm 2.
TEST(AdamW, FollowsAnFp64Run) {
  double p = 1, m = 0, v = 0;
  for (const Isa isa : SupportedIsas()) {
    State state(1, 0);
    state.master[0] = 1;
    state.m[0] = state.v[0] = 0;
    p = 1, m = v = 0;
    for (int64_t t = 1; t <= 10; ++t) {
      state.grad[0] = state.master[0];
      state.Update(isa, {.lr = 0.1f, .weight_decay = 0.1f, .step = t});
      m = 0.9 * m + 0.1 * p;
      v = 0.95 * v + 0.05 * p * p;
      const double root = std::sqrt(v / (1 - std::pow(0.95, t)));
      p = p * (1 - 0.1 * 0.1) - 0.1 * (m / (1 - std::pow(0.9, t))) / (root + 1e-8);
      ASSERT_NEAR(static_cast<double>(state.master[0]), p, 2e-6) << NameOf(isa) << " step " << t;
    }
  }
}

TEST(AdamW, TheFirstStepMovesByTheLearningRate) {
  // m / bias1 = grad and sqrt(v / bias2) = |grad|, so the update is lr * sign(grad).
  State state(1, 0);
  state.grad[0] = -4.0f;
  state.master[0] = 2.0f;
  state.m[0] = state.v[0] = 0;
  state.Update(Isa::kScalar, {.lr = 0.25f, .eps = 0});
  EXPECT_NEAR(state.master[0], 2.25f, 1e-6f);
}

TEST(AdamW, RefusesWrongSizesAndSteps) {
  State state(4, 0);
  EXPECT_THROW(state.Update(Isa::kScalar, {.step = 0}), InternalError);
  state.m.resize(3);
  EXPECT_THROW(state.Update(Isa::kScalar, {}), InternalError);
}

}  // namespace
}  // namespace thinwire::kernels
