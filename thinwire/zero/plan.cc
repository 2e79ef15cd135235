#include "thinwire/zero/plan.h"

#include <algorithm>
#include <cmath>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/base/checked.h"
#include "thinwire/base/error.h"
#include "thinwire/transport/shared_segment.h"
#include "thinwire/zero/plan_bytes.h"
#include "thinwire/zero/plan_text.h"
#include "thinwire/zero/program.h"

namespace thinwire::zero {
namespace {

void CheckOptions(const EngineOptions& options) {
  const auto require = [](bool ok, std::string_view setting, auto found,
                          std::string_view expected) {
    if (!ok) throw UsageError(StrCat(setting, " = ", found, ": it must be ", expected));
  };
  require(options.micro_batches >= 0, "training.micro_batches", options.micro_batches,
          "at least 1, or 0 where each pass says whether it is the last");
  require(options.stage >= 1 && options.stage <= 3, "parallel.stage", options.stage, "1, 2 or 3");
  require(options.prefetch >= 0 && options.prefetch <= 1024, "parallel.prefetch", options.prefetch,
          "from 0 to 1024 units");
  require(options.chunk_bytes >= 4096, "parallel.chunk_bytes", options.chunk_bytes,
          "at least 4096");
  require(options.full_weights_every >= 1, "parallel.full_weights_every",
          options.full_weights_every, "at least 1 step");
  require(options.max_grad_norm >= 0 && std::isfinite(options.max_grad_norm),
          "training.max_grad_norm", options.max_grad_norm, "0 (off) or a positive number");
  THINWIRE_CHECK(options.optimizer != nullptr);
  for (size_t g = 0; g < options.groups.size(); ++g) {
    options.optimizer->Check(options.groups[g], static_cast<int>(g));
  }
  require(options.deadline.count() > 0, "parallel.deadline_s",
          static_cast<double>(options.deadline.count()) / 1000, "a positive number of seconds");
}

void CheckGroups(const UnitLayout& unit, size_t groups) {
  for (size_t p = 0; p < unit.places.size() && unit.spec.trainable; ++p) {
    const int group = unit.places[p].group;
    if (group >= 0 && static_cast<size_t>(group) < groups) continue;
    throw UsageError(StrCat("parameter ", unit.spec.parameters[p].name, " is of group ", group,
                            " where there are ", groups, ": give the optimizer that group"));
  }
}

struct Sizes {
  int64_t shard = 0;           // elements that this rank owns, over all units
  int64_t trained_shard = 0;   // of them those that are trained
  int64_t trained_slices = 0;  // elements of this rank's slices that are trained
  int64_t codes = 0;           // bytes of this rank's slices in codes, over all units
  int64_t kept = 0;            // bytes of this rank's slices in their units' types
  int64_t flats = 0;           // bytes of all units, each in a buffer of its own
  int64_t trained_units = 0;   // elements of all units that are trained
  int64_t residuals = 0;       // bytes that the slow reduce owes
};

Sizes MeasureUnits(Plan& plan) {
  Sizes sizes;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const UnitLayout& unit = plan.units[u];
    if (plan.recipe.forwards_codes()) {
      const int64_t codes = plan.routes[u].code_bytes();
      sizes.codes += codes;
      if (plan.recipe.kept != Kept::kCodes) {
        plan.code_buffer_bytes = std::max(plan.code_buffer_bytes, codes);
      }
    }
    const int local = plan.topology.local();
    const int64_t slice = unit.matrix.Slice(local).size() + unit.vector.Slice(local).size();
    const int64_t flat = unit.flat_bytes();
    plan.unit_bytes = std::max(plan.unit_bytes, flat);
    sizes.flats += AlignUp(flat);
    const int64_t shard = unit.matrix.Shard(local, plan.topology.host()).size() +
                          unit.vector.Shard(local, plan.topology.host()).size();
    sizes.kept += slice * SizeOf(unit.compute);
    sizes.shard += shard;
    if (!unit.spec.trainable) continue;
    plan.gradient_bytes = std::max(plan.gradient_bytes, flat);
    plan.slice_elements = std::max(plan.slice_elements, slice);
    sizes.trained_slices += slice;
    sizes.trained_units += unit.numel();
    sizes.residuals += plan.routes[u].residual_bytes();
    sizes.trained_shard += shard;
  }
  return sizes;
}

void PlanMemory(Plan& plan, const Sizes& sizes) {
  const EngineOptions& options = plan.options;
  const std::string types = TypesOf(plan);
  const auto add = [&](std::string kind, int64_t bytes) {
    if (bytes > 0) plan.memory.push_back({std::move(kind), bytes});
  };
  add("fp32 master weights of the shard", 4 * sizes.shard);
  add(StrCat(options.optimizer->name(), " state of the shard"),
      4 * std::ssize(options.optimizer->states()) * sizes.trained_shard);
  add("reduced gradients of the shard, fp32", 4 * sizes.trained_shard);
  if (plan.keeps_slice()) {
    add(StrCat("kept slice of the host, ", types), sizes.kept);
  } else if (plan.recipe.kept == Kept::kCodes) {
    add(StrCat("kept slice of the host, in codes of ", plan.recipe.slow_gather->name()),
        sizes.codes);
  }
  if (plan.recipe.feedback != nullptr) {
    add(StrCat("what the slow reduce owes, ", plan.recipe.feedback->name()), sizes.residuals);
  }
  if (plan.accumulates_units()) {
    add("gradients of whole units, fp32", 4 * sizes.trained_units);
  }
  if (plan.accumulates_slices()) {
    add("slice accumulators, fp32", 4 * sizes.trained_slices);
  } else {
    add(StrCat(kStagingBuffers, " slice buffers between the hops, fp32"),
        kStagingBuffers * 4 * plan.slice_elements);
  }
  if (plan.resident()) add(StrCat("weights of all units, ", types), sizes.flats);
  add(StrCat(plan.unit_buffers, " unit buffers, ", types),
      plan.unit_buffers * AlignUp(plan.unit_bytes));
  add(StrCat(kGradientBuffers, " gradient buffers, ", types),
      kGradientBuffers * AlignUp(plan.gradient_bytes));
  add("codes that are passed on", plan.code_buffers() * AlignUp(plan.code_buffer_bytes));
  add("messages in flight",
      kFastWindow * plan.message_bytes[0] + kSlowWindow * plan.message_bytes[1]);
  if (plan.topology.ranks_per_host() > 1) {
    // Of a ring, what a message goes through is memory.
    const auto ring = static_cast<int64_t>(transport::kStageBytes);
    add("rings of shared memory",
        plan.options.near_peers * kFastWindow * std::min(plan.message_bytes[0], ring));
  }
}

}  // namespace

int64_t Plan::memory_bytes() const {
  int64_t bytes = 0;
  for (const MemoryItem& item : memory) bytes += item.bytes;
  return bytes;
}

bool Plan::scales_loss() const {
  return std::ranges::any_of(units,
                             [](const UnitLayout& unit) { return unit.compute == DType::kF16; });
}

Plan MakePlan(const std::vector<UnitSpec>& units, const comm::Topology& topology,
              const EngineOptions& options) {
  CheckOptions(options);
  const auto recipe_for = [&](DType compute) {
    const DType wire = options.wire.value_or(compute);
    return AdaptToStage(Adapt(MakeRecipe(options.recipe, wire), topology.hosts(), wire),
                        options.stage, wire);
  };
  Plan plan{.topology = topology, .options = options, .recipe = recipe_for(options.compute)};
  plan.units = MakeLayout(units, topology.hosts(), topology.ranks_per_host(), options.compute);
  for (const UnitLayout& unit : plan.units) {
    plan.parameters = CheckedAdd(plan.parameters, unit.numel(), "parameters of the model");
    if (unit.spec.trainable) plan.trainable_parameters += unit.numel();
    CheckGroups(unit, options.groups.size());
  }
  CheckedMul(plan.parameters, 256, "parameters of the model and their bytes");
  std::vector<bool> weights_in_backward;
  for (const UnitLayout& unit : plan.units) {
    // Blocks of a model are alike: of 1024 hosts, a copy takes a tenth of the time.
    const auto alike = std::ranges::find_if(plan.units, [&](const UnitLayout& other) {
      return other.compute == unit.compute && other.matrix == unit.matrix &&
             other.vector == unit.vector;
    });
    const size_t first = static_cast<size_t>(alike - plan.units.begin());
    plan.routes.push_back(
        first < plan.routes.size()
            ? plan.routes[first]
            : MakeRoutes(unit, topology, recipe_for(unit.compute), options.chunk_bytes));
    weights_in_backward.push_back(unit.spec.weights_in_backward);
    for (const Hop hop : {Hop::kSlowGather, Hop::kFastGather, Hop::kFastReduce, Hop::kSlowReduce}) {
      const bool reduces = hop == Hop::kFastReduce || hop == Hop::kSlowReduce;
      if (reduces && !unit.spec.trainable) continue;
      int64_t& room = plan.message_bytes[IsSlow(hop) ? 1 : 0];
      for (const bool full : {false, true}) {
        for (const auto& chunk : plan.routes.back().of(hop, full)) {
          room = std::max(room, chunk.room());
        }
      }
    }
  }
  const Sizes sizes = MeasureUnits(plan);
  if (!plan.resident()) {
    plan.unit_buffers =
        std::min(options.prefetch + 1, std::max(1, static_cast<int>(plan.units.size())));
  }
  PlanMemory(plan, sizes);
  plan.formula_bytes_per_param = FormulaBytes(plan);
  std::vector<int> gathered;
  for (const GatherStep& gather :
       CompileProgram(TypicalPass(weights_in_backward), plan.unit_buffers).gathers) {
    gathered.push_back(gather.unit);
  }
  if (plan.parameters > 0) {
    std::vector<int> counted;  // by the formula: each unit forward and backward
    for (int u = 0; u < static_cast<int>(plan.units.size()); ++u)
      counted.insert(counted.end(), 2, u);
    // One rank's bytes stand for its host's: shards are equal to within a grain.
    const auto per_parameter = [&](const std::vector<int>& units_gathered) {
      return static_cast<double>(SlowBytesPerStep(plan, units_gathered)) *
             topology.ranks_per_host() / static_cast<double>(plan.parameters);
    };
    plan.predicted_bytes_per_param = per_parameter(gathered);
    plan.spared_bytes_per_param = per_parameter(counted) - plan.predicted_bytes_per_param;
    plan.coded_bytes_per_param = CodedBytes(plan, gathered) * topology.ranks_per_host() /
                                 static_cast<double>(plan.parameters);
  }
  return plan;
}

}  // namespace thinwire::zero
