// An optimizer as an object: what it keeps per element, and how it updates the stretches of the
// parameters that a rank owns. It holds no state itself; the owner of the weights does.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/context.h"

namespace thinwire::optim {

// How one group of parameters is updated. An optimizer looks at what it knows, as said there.
struct GroupSettings {
  float lr = 0;
  float weight_decay = 0;
  float beta1 = 0.9f;  // all but SGD
  float beta2 = 0.999f;
  float eps = 1e-8f;   // Adam, AdamW, LAMB
  float momentum = 0;  // SGD, as the next two
  float dampening = 0;
  bool nesterov = false;

  bool operator==(const GroupSettings&) const = default;
};

// Equal for equal settings, whatever the machine.
uint64_t Fingerprint(std::span<const GroupSettings> groups);

// No optimizer keeps more numbers per element: Adam with amsgrad has three.
constexpr size_t kMostStates = 3;

// Neighbouring elements of one group. All spans have one size; of the states those that the
// optimizer keeps, the others are empty.
struct Stretch {
  int group = 0;
  // Of an optimizer of whole parameters: which parameter of the model, and where in it.
  int64_t parameter = 0;
  int64_t offset = 0;
  // To be scaled by StepContext::grad_scale; may be overwritten. Of an optimizer of whole
  // parameters it is empty where there is none, and then nothing changes; others do not get such a
  // stretch.
  std::span<float> gradient;
  std::span<float> master;
  std::array<std::span<float>, kMostStates> states{};
};

struct StepContext {
  ExecContext exec{};
  int64_t step = 1;      // of the optimizer, 1 for the first
  float grad_scale = 1;  // clipping and the loss scale
  std::span<const GroupSettings> groups;
  // Only for an optimizer of whole parameters: room for two numbers per parameter of the model, and
  // the sum of such numbers over all ranks, in rank order. Every rank sums as often as the others.
  std::span<double> room{};
  std::function<void(std::span<double>)> sum_over_ranks{};
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual std::string_view name() const = 0;
  // What it keeps per element, fp32 and zero before the first step; the names are those in a
  // checkpoint.
  virtual std::vector<std::string_view> states() const = 0;
  // False: Apply gets the stretches of one unit after the other, neighbours of one group in one
  // stretch. True: it is called once per step with all of them, each within one parameter.
  virtual bool whole_parameters() const { return false; }
  // Throws UsageError naming the setting that makes no sense, and `group`.
  virtual void Check(const GroupSettings& settings, int group) const = 0;
  virtual void Apply(const StepContext& step, std::span<const Stretch> stretches) const = 0;
};

using OptimizerPtr = std::shared_ptr<const Optimizer>;

}  // namespace thinwire::optim
