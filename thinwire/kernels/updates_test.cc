#include "thinwire/kernels/updates.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "thinwire/kernels/test_inputs.h"

namespace thinwire::kernels {
namespace {

struct Arrays {
  std::vector<float> grad, master, a, b;  // a and b: the optimizer's state

  Arrays(int64_t size, uint64_t key)
      : grad(Floats(size, key)),
        master(Floats(size, key + 1)),
        a(Floats(size, key + 2)),
        b(Floats(size, key + 3)) {}
};

using Rule = std::function<void(const ExecContext&, int64_t step, std::span<float> grad,
                                std::span<float> master, std::span<float> a, std::span<float> b)>;

struct Named {
  const char* name;
  Rule rule;
};

AdamWStep AdamStep(int64_t step) {
  return {.lr = 3e-3f,
          .beta1 = 0.8f,
          .beta2 = 0.9f,
          .eps = 1e-6f,
          .weight_decay = 0.3f,
          .grad_scale = 0.7f,
          .step = step};
}

SgdStep DescentStep(int64_t step, float momentum, bool nesterov) {
  return {.lr = 3e-3f,
          .momentum = momentum,
          .dampening = nesterov ? 0.0f : 0.25f,
          .weight_decay = 0.3f,
          .nesterov = nesterov,
          .grad_scale = 0.7f,
          .step = step};
}

std::vector<Named> Rules() {
  using S = std::span<float>;
  const auto sgd = [](float momentum, bool nesterov) {
    return [=](const ExecContext& c, int64_t t, S g, S p, S a, S) {
      Sgd(c, DescentStep(t, momentum, nesterov), g, p, a);
    };
  };
  return {
      {"adam", [](const ExecContext& c, int64_t t, S g, S p, S a,
                  S b) { Adam(c, AdamStep(t), g, p, a, b); }},
      {"sgd", sgd(0, false)},
      {"momentum", sgd(0.9f, false)},
      {"nesterov", sgd(0.9f, true)},
      {"lion",
       [](const ExecContext& c, int64_t, S g, S p, S a, S) {
         Lion(c,
              {.lr = 3e-3f, .beta1 = 0.8f, .beta2 = 0.9f, .weight_decay = 0.3f, .grad_scale = 0.7f},
              g, p, a);
       }},
      {"lamb",
       [](const ExecContext& c, int64_t t, S g, S p, S a, S b) {
         LambDirection(c, AdamStep(t), g, p, a, b);
         SubtractScaled(c, 0.01f, g, p);
       }},
  };
}

TEST(Updates, GiveTheSameBitsForEveryInstructionSetTailAndPlace) {
  for (const Named& each : Rules()) {
    for (int64_t size = 0; size <= 100; ++size) {
      const Arrays before(size, static_cast<uint64_t>(10 * size));
      const size_t skip = static_cast<size_t>(std::min<int64_t>(size, size % 3));
      Arrays wanted = before;  // one element at a time, by the scalar loop
      for (size_t i = skip; i < static_cast<size_t>(size); ++i) {
        const auto one = [&](std::vector<float>& all) { return std::span(all).subspan(i, 1); };
        each.rule({Isa::kScalar}, 1 + size, one(wanted.grad), one(wanted.master), one(wanted.a),
                  one(wanted.b));
      }
      for (const Isa isa : SupportedIsas()) {
        Arrays found = before;
        const auto rest = [&](std::vector<float>& all) { return std::span(all).subspan(skip); };
        each.rule({isa}, 1 + size, rest(found.grad), rest(found.master), rest(found.a),
                  rest(found.b));
        ASSERT_TRUE(SameBits(found.master, wanted.master)) << each.name << NameOf(isa) << size;
        ASSERT_TRUE(SameBits(found.a, wanted.a)) << each.name << NameOf(isa) << size;
        ASSERT_TRUE(SameBits(found.b, wanted.b)) << each.name << NameOf(isa) << size;
        ASSERT_TRUE(SameBits(found.grad, wanted.grad)) << each.name << NameOf(isa) << size;
      }
    }
  }
}

// The textbook formulas in fp64, ten steps of the gradient p - 1/2 from p = 1 on.
double Adam64(double p, double g, int64_t t, double& m, double& v) {
  g = 0.7 * g + 0.3 * p;
  m = 0.8 * m + 0.2 * g;
  v = 0.9 * v + 0.1 * g * g;
  const double root = std::sqrt(v / (1 - std::pow(0.9, t)));
  return p - 3e-3 * (m / (1 - std::pow(0.8, t))) / (root + 1e-6);
}

double Sgd64(double p, double g, int64_t t, double momentum, bool nesterov, double& b) {
  g = 0.7 * g + 0.3 * p;
  if (momentum != 0) {
    b = t == 1 ? g : momentum * b + (nesterov ? 1.0 : 0.75) * g;
    g = nesterov ? g + momentum * b : b;
  }
  return p - 3e-3 * g;
}

double Lion64(double p, double g, double& m) {
  g *= 0.7;
  const double c = 0.8 * m + 0.2 * g;
  m = 0.9 * m + 0.1 * g;
  return p * (1 - 3e-3 * 0.3) - 3e-3 * (c > 0 ? 1 : c < 0 ? -1 : 0);
}

double Lamb64(double p, double g, int64_t t, double& m, double& v) {
  g *= 0.7;
  m = 0.8 * m + 0.2 * g;
  v = 0.9 * v + 0.1 * g * g;
  const double root = std::sqrt(v / (1 - std::pow(0.9, t)));
  return p - 0.01 * (m / (1 - std::pow(0.8, t)) / (root + 1e-6) + 0.3 * p);
}

TEST(Updates, FollowAnFp64Run) {
  using Reference = std::function<double(double p, double g, int64_t t, double& a, double& b)>;
  const Reference references[] = {
      Adam64,
      [](double p, double g, int64_t t, double& a, double&) { return Sgd64(p, g, t, 0, false, a); },
      [](double p, double g, int64_t t, double& a, double&) {
        return Sgd64(p, g, t, 0.9, false, a);
      },
      [](double p, double g, int64_t t, double& a, double&) {
        return Sgd64(p, g, t, 0.9, true, a);
      },
      [](double p, double g, int64_t, double& a, double&) { return Lion64(p, g, a); },
      Lamb64,
  };
  const std::vector<Named> rules = Rules();
  for (size_t r = 0; r < rules.size(); ++r) {
    double p = 1, a = 0, b = 0;
    float master = 1, state_a = 0, state_b = 0;
    for (int64_t t = 1; t <= 10; ++t) {
      float grad = master - 0.5f;
      const double g = p - 0.5;
      p = references[r](p, g, t, a, b);
      rules[r].rule({}, t, {&grad, 1}, {&master, 1}, {&state_a, 1}, {&state_b, 1});
      ASSERT_NEAR(static_cast<double>(master), p, 2e-6) << rules[r].name << " step " << t;
    }
    EXPECT_LT(p, 1);
  }
}

TEST(Updates, LionOfNothingMovesNothing) {
  float grad = 0, master = 2, m = 0;
  Lion({}, {.lr = 0.5f}, {&grad, 1}, {&master, 1}, {&m, 1});
  EXPECT_EQ(master, 2);
}

TEST(Updates, RefuseSpansOfDifferentSizes) {
  Arrays x(4, 0);
  const std::span<float> shorter = std::span(x.a).first(3);
  EXPECT_THROW(Adam({}, AdamStep(1), x.grad, x.master, shorter, x.b), InternalError);
  EXPECT_THROW(Adam({}, AdamStep(0), x.grad, x.master, x.a, x.b), InternalError);
  EXPECT_THROW(Sgd({}, DescentStep(1, 0.9f, false), x.grad, x.master, shorter), InternalError);
  EXPECT_NO_THROW(Sgd({}, DescentStep(1, 0, false), x.grad, x.master, {}));
  EXPECT_THROW(Lion({}, {}, x.grad, x.master, shorter), InternalError);
  EXPECT_THROW(SubtractScaled({}, 1, shorter, x.master), InternalError);
}

}  // namespace
}  // namespace thinwire::kernels
