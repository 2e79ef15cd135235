#include "thinwire/zero/plan_bytes.h"

#include <algorithm>
#include <array>

#include "thinwire/zero/coded_share.h"

namespace thinwire::zero {
namespace {

// Bytes per element of a codec on a long piece.
double BytesPerElement(const codec::Codec& codec) {
  const std::array<int64_t, 1> runs{int64_t{1} << 20};
  return static_cast<double>(codec.EncodedBytes(runs)) / static_cast<double>(runs[0]);
}

// A number that is not known is counted as one.
int PassesPerStep(const Plan& plan) { return std::max(1, plan.options.micro_batches); }

// Gathers of a unit per step, as the formula counts them: new weights pushed, or pulls forward and
// backward.
double GathersOf(const Plan& plan, bool trained) {
  return plan.pushes() ? (trained ? 1 : 0) : 2.0 * PassesPerStep(plan);
}

struct SlowBytes {
  int64_t gather = 0;
  int64_t reduce = 0;
};

SlowBytes SlowBytesOf(const Plan& plan, const std::vector<int>& gathered_units) {
  SlowBytes bytes;
  // Of a frozen unit nothing is reduced, and nothing changes that would have to be pushed.
  for (size_t u = 0; u < plan.units.size(); ++u) {
    if (!plan.units[u].spec.trainable) continue;
    bytes.reduce += plan.routes[u].sent_bytes(Hop::kSlowReduce);
    if (plan.pushes()) bytes.gather += plan.routes[u].sent_bytes(Hop::kSlowGather);
  }
  if (plan.pushes()) return bytes;
  for (const int unit : gathered_units) {
    bytes.gather +=
        PassesPerStep(plan) * plan.routes[static_cast<size_t>(unit)].sent_bytes(Hop::kSlowGather);
  }
  return bytes;
}

}  // namespace

double FormulaBytes(const Plan& plan) {
  const double share = 1.0 - 1.0 / plan.topology.hosts();
  const auto bytes_of = [&](const Recipe& recipe, bool trained) {
    return share * (GathersOf(plan, trained) * BytesPerElement(*recipe.slow_gather) +
                    (trained ? BytesPerElement(*recipe.slow_reduce) : 0));
  };
  if (plan.parameters == 0) return bytes_of(plan.recipe, true);
  double bytes = 0;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    bytes += static_cast<double>(plan.units[u].numel()) *
             bytes_of(plan.routes[u].recipe, plan.units[u].spec.trainable);
  }
  return bytes / static_cast<double>(plan.parameters);
}

double BytesOfVectors(const Plan& plan) {
  double bytes = 0;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const Recipe& recipe = plan.routes[u].recipe;
    const auto added = [&](const codec::Codec& codec) {
      return IsRaw(codec) ? 0 : BytesPerElement(*recipe.vectors) - BytesPerElement(codec);
    };
    const double gather = added(*recipe.slow_gather), reduce = added(*recipe.slow_reduce);
    const bool trained = plan.units[u].spec.trainable;
    bytes += static_cast<double>(plan.units[u].vector.size()) *
             (GathersOf(plan, trained) * gather + (trained ? reduce : 0));
  }
  return bytes * (1.0 - 1.0 / plan.topology.hosts()) / static_cast<double>(plan.parameters);
}

double BytesOfFullValues(const Plan& plan) {
  double bytes = 0;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const Recipe& recipe = plan.routes[u].recipe;
    if (!plan.units[u].spec.trainable) continue;
    bytes += static_cast<double>(plan.units[u].matrix.size()) *
             (BytesPerElement(*recipe.vectors) - BytesPerElement(*recipe.slow_gather));
  }
  const double each = static_cast<double>(std::max<int64_t>(1, plan.parameters)) *
                      static_cast<double>(plan.options.full_weights_every);
  return bytes * (1.0 - 1.0 / plan.topology.hosts()) / each;
}

double CodedBytes(const Plan& plan, const std::vector<int>& gathered_units) {
  const codec::Codec& gather = *plan.recipe.slow_gather;
  const codec::Codec& reduce = *plan.recipe.slow_reduce;
  if (gather.coder() == nullptr && reduce.coder() == nullptr) return 0;
  const SlowBytes bytes = SlowBytesOf(plan, gathered_units);
  return static_cast<double>(bytes.gather) * CodedShare(gather) +
         static_cast<double>(bytes.reduce) * CodedShare(reduce);
}

int64_t SlowBytesPerStep(const Plan& plan, const std::vector<int>& gathered_units) {
  const SlowBytes bytes = SlowBytesOf(plan, gathered_units);
  return bytes.gather + bytes.reduce;
}

}  // namespace thinwire::zero
