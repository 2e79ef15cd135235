#include "thinwire/planner/choice.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>

#include "thinwire/base/error.h"
#include "thinwire/zero/recipe.h"

namespace thinwire::planner {
namespace {

constexpr KnownRecipe kRecipes[] = {
    {"zero3", 0, "nothing is coded"},
    {"hpz", 0, "nothing is coded"},
    {"zero++", 0.08, "bench/results/quality-zero++.json, upper 95 % bound"},
    // Measured at the end of a schedule
    // (bench/results/quality-delta4_delta-ternary_ternary-large.json, upper 95 % bounds): 0.02,
    // 0.03 and 0.17 %. At a high rate more may be lost than there.
    {"delta4", 0.1, "measured 0.02 % at the end of a schedule, with room for high rates"},
    {"delta-ternary", 0.2, "measured 0.03 % at the end of a schedule, with room for high rates"},
    {"delta4+coded", 0.1, "the values are those of delta4"},
    {"delta-ternary+coded", 0.2, "the values are those of delta-ternary"},
    {"ternary", 0.3, "measured 0.17 % at the end of a schedule, with room for high rates"},
    {"ternary+coded", 0.3, "the values are those of ternary"},
};

// Named recipes that are not offered: parts of zero++, whose bytes lie between those of zero3 and of
// zero++.
constexpr std::string_view kByNameOnly[] = {"qwz", "qgz", "qwz+hpz", "qwz+qgz", "hpz+qgz"};

constexpr bool IsOffered(std::string_view name) {
  return std::ranges::find(kRecipes, name, &KnownRecipe::name) != std::end(kRecipes);
}

constexpr bool IsNamed(std::string_view name) {
  constexpr std::string_view kCoded = "+coded";
  if (name.ends_with(kCoded)) name.remove_suffix(kCoded.size());
  return std::ranges::find(zero::kNamedRecipes, name, &zero::NamedRecipe::name) !=
         std::end(zero::kNamedRecipes);
}

static_assert(std::ranges::all_of(zero::kNamedRecipes,
                                  [](const zero::NamedRecipe& each) {
                                    return IsOffered(each.name) !=
                                           (std::ranges::find(kByNameOnly, each.name) !=
                                            std::end(kByNameOnly));
                                  }),
              "a recipe of zero/recipe.h is neither offered nor left out here, or both");
static_assert(std::ranges::all_of(kRecipes, IsNamed, &KnownRecipe::name) &&
                  std::ranges::all_of(kByNameOnly, IsNamed),
              "a recipe here has no row in zero/recipe.h");

std::vector<zero::UnitSpec> Copy(std::span<const zero::UnitSpec> units) {
  return {units.begin(), units.end()};
}

Candidate PredictWith(const Question& question, zero::EngineOptions options) {
  const zero::Plan plan = zero::MakePlan(Copy(question.units), question.topology, options);
  Candidate candidate;
  candidate.recipe = options.recipe;
  candidate.options = std::move(options);
  candidate.step = PredictStep(plan, question.machine, question.work);
  candidate.formula_bytes_per_param = plan.formula_bytes_per_param;
  candidate.bytes_per_param =
      plan.coded_bytes_per_param > 0 ? plan.coded_bytes_per_param : plan.predicted_bytes_per_param;
  candidate.memory_bytes = plan.memory_bytes();
  const auto known = std::ranges::find(kRecipes, candidate.recipe, &KnownRecipe::name);
  candidate.gap_known = known != std::end(kRecipes);
  candidate.gap_percent = candidate.gap_known ? known->gap_percent : 0;
  if (question.memory_bytes > 0 && candidate.memory_bytes > question.memory_bytes) {
    candidate.excluded = "not enough memory";
  }
  if (candidate.gap_percent > question.loss_budget) candidate.excluded = "beyond the loss budget";
  return candidate;
}

std::string Fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

// Three digits that count, whatever the size.
std::string Seconds(double value) { return Fixed(value, value < 1 ? 4 : value < 100 ? 2 : 0); }

std::string Why(const Question& question, const Choice& choice) {
  const Candidate& best = choice.best();
  if (question.topology.hosts() == 1) return "there is one host, and no slow link to spare";
  if (best.excluded == "not enough memory") return "no recipe fits into the memory; this is least";
  const auto fastest = std::ranges::min_element(choice.candidates, {}, [](const Candidate& each) {
    return std::pair(!each.excluded.empty(), each.step.seconds);
  });
  if (fastest->recipe == best.recipe) {
    return StrCat("the fastest within a loss budget of ", question.loss_budget, " %");
  }
  return StrCat("the simplest within 2 % of the fastest (", fastest->recipe,
                ") and a loss budget of ", question.loss_budget, " %");
}

}  // namespace

std::span<const KnownRecipe> KnownRecipes() { return kRecipes; }

Candidate Predict(const Question& question, std::string_view recipe) {
  zero::EngineOptions options = question.options;
  options.recipe = recipe;
  return PredictWith(question, std::move(options));
}

Choice Choose(const Question& question) {
  Choice choice;
  for (const KnownRecipe& known : KnownRecipes()) {
    choice.candidates.push_back(Predict(question, known.name));
    if (question.topology.hosts() == 1) return choice;
  }
  const auto& all = choice.candidates;
  double fastest = std::numeric_limits<double>::infinity();
  for (const Candidate& each : all) {
    if (each.excluded.empty()) fastest = std::min(fastest, each.step.seconds);
  }
  const auto chosen = std::ranges::find_if(all, [&](const Candidate& each) {
    return each.excluded.empty() && each.step.seconds <= fastest * (1 + kWorthIt);
  });
  const auto least = std::ranges::min_element(all, {}, [&](const Candidate& each) {
    return std::pair(each.gap_percent > question.loss_budget, each.memory_bytes);
  });
  choice.chosen = static_cast<size_t>((chosen == all.end() ? least : chosen) - all.begin());
  return choice;
}

void Tune(const Question& question, Candidate& candidate) {
  constexpr std::array<int, 3> kPrefetch{1, 2, 4};
  constexpr std::array<int64_t, 3> kChunks{1 << 20, 4 << 20, 16 << 20};
  const double before = candidate.step.seconds;
  Candidate best = candidate;
  for (const int prefetch : kPrefetch) {
    for (const int64_t chunk_bytes : kChunks) {
      zero::EngineOptions options = candidate.options;
      options.prefetch = prefetch;
      options.chunk_bytes = chunk_bytes;
      Candidate other = PredictWith(question, std::move(options));
      if (other.excluded.empty() && other.step.seconds < best.step.seconds) best = std::move(other);
    }
  }
  if (best.step.seconds < before * (1 - kWorthIt)) candidate = std::move(best);
}

bool WorthSwitching(const Candidate& current, const Candidate& chosen) {
  return chosen.recipe != current.recipe &&
         chosen.step.seconds < current.step.seconds * (1 - kHysteresis);
}

std::string Describe(const Question& question, const Choice& choice) {
  std::vector<std::vector<std::string>> rows{
      {"", "recipe", "bytes/param", "step", "exposed", "memory/rank", "loss", ""}};
  for (const Candidate& each : choice.candidates) {
    rows.push_back({&each == &choice.best() ? "->" : "", each.recipe,
                    Fixed(each.bytes_per_param, 3), Seconds(each.step.seconds) + " s",
                    Seconds(each.step.exposed_s) + " s",
                    Fixed(static_cast<double>(each.memory_bytes) / (1 << 20), 1) + " MiB",
                    each.gap_known ? StrCat("+", Fixed(each.gap_percent, 2), " %") : "unknown",
                    each.excluded});
  }
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::ostringstream out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - row[c].size(), ' ');
      const bool left = c <= 1 || c + 1 == row.size();
      line += (c == 0 ? "  " : c == 1 ? " " : "  ") + (left ? row[c] + space : space + row[c]);
    }
    out << line.substr(0, line.find_last_not_of(' ') + 1) << "\n";
  }
  out << "  " << choice.best().recipe << ": " << Why(question, choice) << "\n";
  return out.str();
}

}  // namespace thinwire::planner
