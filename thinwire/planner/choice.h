// Which recipe: the one of least predicted step time whose expected effect on the loss is within a
// budget and whose memory is there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/comm/topology.h"
#include "thinwire/planner/machine.h"
#include "thinwire/planner/simulation.h"
#include "thinwire/zero/options.h"

namespace thinwire::planner {

// A recipe that may be chosen, and how much it is expected to raise the loss.
struct KnownRecipe {
  std::string_view name;
  double gap_percent;
  std::string_view source;  // of the number
};

// The simplest first. A recipe that has no entry has to be asked for by name; each of
// zero::kNamedRecipes has one or is left out by name in choice.cc, which else does not compile.
std::span<const KnownRecipe> KnownRecipes();

struct Candidate {
  zero::EngineOptions options;  // with the recipe, and where it was tuned prefetch and chunk_bytes
  std::string recipe;
  double gap_percent = 0;
  bool gap_known = true;
  StepPrediction step;
  double formula_bytes_per_param = 0;
  double bytes_per_param = 0;  // predicted, that a host sends over the slow link in a step
  int64_t memory_bytes = 0;    // per rank, of the engine
  std::string excluded;        // why it may not be chosen; empty: it may
};

struct Question {
  std::span<const zero::UnitSpec> units;
  comm::Topology topology;
  zero::EngineOptions options;  // but the recipe
  Machine machine{};
  std::span<const UnitWork> work;  // by unit
  double loss_budget = 0.25;       // percent
  int64_t memory_bytes = 0;        // that the engine of a rank may take; 0: no limit
};

struct Choice {
  std::vector<Candidate> candidates;  // as KnownRecipes()
  size_t chosen = 0;

  const Candidate& best() const { return candidates[chosen]; }
};

// What the question comes to with one recipe.
Candidate Predict(const Question& question, std::string_view recipe);

// A recipe that is within kWorthIt of the fastest but simpler is preferred. On one host the raw
// recipe is taken. When nothing fits into the memory, what takes least of it is.
constexpr double kWorthIt = 0.02;
Choice Choose(const Question& question);

// Other prefetch depths and message sizes for what was chosen: changes its options where that is
// predicted to be faster by more than kWorthIt.
void Tune(const Question& question, Candidate& candidate);

// Whether to leave `current` for what is chosen now: only when that is predicted to be faster by
// more than kHysteresis, so that noise does not make a run swing between two.
constexpr double kHysteresis = 0.10;
bool WorthSwitching(const Candidate& current, const Candidate& chosen);

// The candidates as a table, the chosen one marked, and a line that says why.
std::string Describe(const Question& question, const Choice& choice);

}  // namespace thinwire::planner
