#include "thinwire/zero/plan_text.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/zero/plan_bytes.h"

namespace thinwire::zero {
namespace {

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
  const double vectors = BytesOfVectors(plan), spared = -plan.spared_bytes_per_param;
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

std::string TypesOf(const Plan& plan) {
  if (plan.units.empty()) return std::string(NameOf(plan.options.compute));
  return Names(plan, [&](size_t u) { return NameOf(plan.units[u].compute); });
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
  out << " in " << plan.units.size() << " units, computed in " << TypesOf(plan)
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
        << plan.options.full_weights_every << " steps, " << BytesOfFullValues(plan)
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
