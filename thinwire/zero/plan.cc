#include "thinwire/zero/plan.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/base/checked.h"
#include "thinwire/base/error.h"
#include "thinwire/transport/shared_segment.h"
#include "thinwire/zero/coded_share.h"
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

double Formula(const Plan& plan) {
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

// The types of the units, or what each says of itself, in order and each once: "bf16 and fp32".
template <typename NameOfUnit>
std::string Names(const Plan& plan, NameOfUnit&& name_of) {
  std::vector<std::string> names;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const std::string name(name_of(u));
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  std::string all;
  for (size_t n = 0; n < names.size(); ++n) {
    all += StrCat(n == 0 ? "" : n + 1 == names.size() ? " and " : ", ", names[n]);
  }
  return all;
}

std::string Types(const Plan& plan) {
  if (plan.units.empty()) return std::string(NameOf(plan.options.compute));
  return Names(plan, [&](size_t u) { return NameOf(plan.units[u].compute); });
}

// The codecs of one of the recipe's hops, over all units.
std::string Codecs(const Plan& plan, CodecPtr Recipe::*hop) {
  if (plan.units.empty()) return std::string((plan.recipe.*hop)->name());
  return Names(plan, [&](size_t u) { return (plan.routes[u].recipe.*hop)->name(); });
}

int64_t Vectors(const Plan& plan) {
  int64_t vectors = 0;
  for (const UnitLayout& unit : plan.units) vectors += unit.vector.size();
  return vectors;
}

// What it adds to the formula's bytes per parameter that 1-D parameters are not coded.
double OfVectors(const Plan& plan) {
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

// What full values in place of differences add to an average step, in bytes per parameter.
double OfFullValues(const Plan& plan) {
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
  const std::string types = Types(plan);
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

std::string Megabytes(int64_t bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / (1 << 20) << " MiB";
  return out.str();
}

// That 1-D parameters are not coded, where others are.
void DescribeVectors(const Plan& plan, std::ostream& out) {
  const Recipe& recipe = plan.recipe;
  const auto coded = [](int members, const CodecPtr& codec) {
    return members > 1 && codec != nullptr && !IsRaw(*codec);
  };
  const int hosts = plan.topology.hosts(), locals = plan.topology.ranks_per_host();
  const CodecPtr& fast_gather = recipe.forwards_codes() ? recipe.slow_gather : recipe.fast_gather;
  const int64_t vectors = Vectors(plan);
  if (vectors == 0 || (!coded(hosts, recipe.slow_gather) && !coded(locals, fast_gather) &&
                       !coded(locals, recipe.fast_reduce) && !coded(hosts, recipe.slow_reduce))) {
    return;
  }
  out << "  vectors       " << vectors << " parameters ("
      << 100.0 * static_cast<double>(vectors) / static_cast<double>(plan.parameters)
      << " %) travel in " << Codecs(plan, &Recipe::vectors)
      << " where others are coded: they have one dimension\n";
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

// The bytes of a step after entropy coding, of normally distributed elements; 0 where there is
// none.
double CodedBytes(const Plan& plan, const std::vector<int>& gathered_units) {
  const codec::Codec& gather = *plan.recipe.slow_gather;
  const codec::Codec& reduce = *plan.recipe.slow_reduce;
  if (gather.coder() == nullptr && reduce.coder() == nullptr) return 0;
  const SlowBytes bytes = SlowBytesOf(plan, gathered_units);
  return static_cast<double>(bytes.gather) * CodedShare(gather) +
         static_cast<double>(bytes.reduce) * CodedShare(reduce);
}

void DescribeCoding(const Plan& plan, std::ostream& out) {
  if (plan.coded_bytes_per_param == 0) return;
  const bool gather = plan.recipe.slow_gather->coder() != nullptr;
  const bool reduce = plan.recipe.slow_reduce->coder() != nullptr;
  out << "  entropy       " << (gather ? "slow gather" : "") << (gather && reduce ? " and " : "")
      << (reduce ? "slow reduce" : "") << " coded: the prediction is the most they send, "
      << plan.coded_bytes_per_param << " where elements are normally distributed\n";
}

// Why the prediction is not the formula, where a reason makes more than 1 % of it.
void DescribeDifference(const Plan& plan, std::ostream& out) {
  if (plan.parameters == 0) return;
  const double difference = plan.predicted_bytes_per_param - plan.formula_bytes_per_param;
  const double vectors = OfVectors(plan), spared = -plan.spared_bytes_per_param;
  const std::pair<double, std::string_view> reasons[] = {
      {spared, "weights still in a buffer or not read in backward"},
      {vectors, "parameters of one dimension, not coded"},
      {difference - vectors - spared, "headers, short blocks and shards in whole grains"}};
  if (std::ranges::all_of(reasons, [&](const auto& reason) {
        return std::abs(reason.first) <= 0.01 * plan.formula_bytes_per_param;
      })) {
    return;
  }
  std::string_view separator = "  because       ";
  for (const auto& [bytes, reason] : reasons) {
    if (std::abs(bytes) < 0.0005) continue;
    out << separator << std::showpos << bytes << std::noshowpos << " " << reason;
    separator = ", ";
  }
  out << "\n";
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

int64_t SlowBytesPerStep(const Plan& plan, const std::vector<int>& gathered_units) {
  const SlowBytes bytes = SlowBytesOf(plan, gathered_units);
  return bytes.gather + bytes.reduce;
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
    plan.routes.push_back(
        MakeRoutes(unit, topology, recipe_for(unit.compute), options.chunk_bytes));
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
  plan.formula_bytes_per_param = Formula(plan);
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

std::string Describe(const Plan& plan) {
  const comm::Topology& topology = plan.topology;
  std::ostringstream out;
  out << std::fixed << std::setprecision(3);
  out << "plan: recipe " << plan.recipe.name << ", "
      << (plan.resident() ? StrCat("stage ", plan.options.stage, ", ") : std::string())
      << topology.hosts() << " host" << (topology.hosts() == 1 ? "" : "s") << " x "
      << topology.ranks_per_host() << " rank" << (topology.ranks_per_host() == 1 ? "" : "s") << " ("
      << topology.origin() << ")\n";
  out << "  parameters    " << plan.parameters;
  if (plan.trainable_parameters != plan.parameters) {
    out << ", " << plan.trainable_parameters << " of them trained,";
  }
  out << " in " << plan.units.size() << " units, computed in " << Types(plan)
      << ", fp32 master weights and " << plan.options.optimizer->name() << " on the owner\n";
  const auto hop = [&](Hop h, std::string_view codec, std::string_view when) {
    const int members = IsSlow(h) ? topology.hosts() : topology.ranks_per_host();
    out << "  " << std::left << std::setw(14) << NameOf(h);
    if (members == 1) {
      out << "none: " << (IsSlow(h) ? "there is one host" : "there is one rank per host") << "\n";
    } else {
      out << codec << ", " << when << "\n";
    }
  };
  const Recipe& recipe = plan.recipe;
  hop(Hop::kSlowGather,
      StrCat(Codecs(plan, &Recipe::slow_gather),
             recipe.sends_differences() ? " of the difference to the weights that all have" : ""),
      plan.resident() ? "pushed once per step after the optimizer; each rank keeps all weights"
      : recipe.kept == Kept::kNothing ? "pulled before each use"
      : plan.keeps_slice()
          ? "pushed once per step after the optimizer; each rank keeps the slice of its host"
          : "pushed once per step after the optimizer; each rank keeps the codes of its slice");
  hop(Hop::kFastGather,
      recipe.forwards_codes()
          ? StrCat("the codes of the slow gather (", recipe.slow_gather->name(), ")")
          : Codecs(plan, &Recipe::fast_gather),
      plan.resident() ? "behind the slow gather" : "before each use");
  const std::string rotated =
      recipe.rotation == 0 ? "" : StrCat(" of gradients rotated by ", recipe.rotation);
  hop(Hop::kFastReduce, StrCat(Codecs(plan, &Recipe::fast_reduce), rotated),
      plan.options.stage == 1 ? "once per step" : "after each backward");
  hop(Hop::kSlowReduce, StrCat(Codecs(plan, &Recipe::slow_reduce), rotated), "once per step");
  if (topology.ranks_per_host() > 1 && !plan.options.near_link.empty()) {
    out << "  fast link     " << plan.options.near_link << "\n";
  }
  DescribeVectors(plan, out);
  if (plan.pushes() && plan.trainable_parameters != plan.parameters) {
    out << "  note          frozen units are pushed once, not after each step\n";
  }
  if (plan.options.micro_batches == 0) {
    out << "  note          each pass says whether it is the last of its step; predicted for one\n";
  }
  if (recipe.sends_differences()) {
    out << "  note          each unit's full values are sent first, after a load or a save, and "
           "once in "
        << plan.options.full_weights_every << " steps, " << OfFullValues(plan)
        << " bytes per parameter and step on average\n";
  }
  for (const std::string& remark : recipe.remarks) out << "  note          " << remark << "\n";
  out << "  slow link     " << plan.predicted_bytes_per_param
      << " bytes per parameter, host and step predicted; formula of the recipe "
      << plan.formula_bytes_per_param << "\n";
  DescribeDifference(plan, out);
  DescribeCoding(plan, out);
  if (plan.options.checksum) {
    out << "  checksum      "
        << (topology.world() > 1 ? "CRC-32C of each message" : "none: one rank sends nothing")
        << "\n";
  }
  out << "  memory        " << Megabytes(plan.memory_bytes()) << " per rank\n";
  for (const MemoryItem& item : plan.memory) {
    out << "    " << std::right << std::setw(12) << Megabytes(item.bytes) << "  " << item.kind
        << "\n";
  }
  return out.str();
}

}  // namespace thinwire::zero
