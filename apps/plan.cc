#include "apps/plan.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "thinwire/base/error.h"
#include "thinwire/comm/piece.h"
#include "thinwire/planner/choice.h"
#include "thinwire/planner/link_probe.h"
#include "thinwire/planner/measured.h"
#include "thinwire/planner/pilot.h"
#include "thinwire/planner/transformer.h"

namespace thinwire::app {
namespace {

using planner::Candidate;

// Adam reads and writes 28 bytes per element; accelerators move about 2e12 bytes per second.
constexpr double kOptimizerSeconds = 28 / 2e12;

void Require(bool holds, std::string_view option, double found, std::string_view expected) {
  if (!holds) throw UsageError(StrCat(option, " ", found, ": expected ", expected));
}

void Check(const PlanQuestion& q) {
  constexpr int kMost = static_cast<int>(comm::kMaxTerms);
  const std::string few = StrCat("a number from 1 to ", kMost);
  Require(q.hosts >= 1 && q.hosts <= kMost, "--hosts", q.hosts, few);
  Require(q.ranks >= 1 && q.ranks <= kMost, "--ranks", q.ranks, few);
  // Beyond these a step has no end, or none that a number holds.
  const auto within = [](double value, double least, double most) {
    return value >= least && value <= most;
  };
  if (q.measured.empty() || q.gbit != 0) {
    Require(within(q.gbit, 1e-6, 1e9), "--gbit", q.gbit,
            "a number from 1e-6 to 1e9, of 1e9 bits per second");
  }
  Require(within(q.compute_s, 0, 1e9), "--compute-s", q.compute_s,
          "the seconds of a micro-batch, at most 1e9");
  Require(q.cores_per_rank == 0 || within(q.cores_per_rank, 1e-6, 1e9), "--cores-per-rank",
          q.cores_per_rank, "a number from 1e-6 to 1e9, or 0");
  Require(within(q.fast_gbit, 1e-6, 1e9), "--fast-gbit", q.fast_gbit, "a number from 1e-6 to 1e9");
  Require(within(q.flops, 1e3, 1e24), "--flops", q.flops, "a number from 1e3 to 1e24, e.g. 4e14");
  Require(within(q.codec_rate, 1e3, 1e18), "--codec-rate", q.codec_rate,
          "a number from 1e3 to 1e18, e.g. 1e11");
  Require(within(q.tokens, 1, 1e12) && q.tokens == std::floor(q.tokens), "--tokens", q.tokens,
          "a whole number from 1 to 1e12");
  Require(q.micro_batches >= 1 && q.micro_batches <= 1024, "--micro-batches", q.micro_batches,
          "a number from 1 to 1024");
  Require(within(q.latency_us, 0, 1e9), "--latency-us", q.latency_us, "0 or a positive number");
  Require(within(q.memory_gib, 0, 1e9), "--memory", q.memory_gib,
          "the GiB that a rank has, or 0 for no limit");
  Require(within(q.loss_budget, 0, 100), "--loss-budget", q.loss_budget, "percent, from 0 to 100");
}

// What a run measured, where its file is given; a rate that is given, too, goes before that.
std::optional<planner::Measured> MeasuredBy(const PlanQuestion& q) {
  if (q.measured.empty()) return std::nullopt;
  std::ifstream file(q.measured, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  // A directory opens and has nothing to read.
  if (!file || !text) throw UsageError(StrCat("--measured ", q.measured, ": cannot be read"));
  planner::Measured measured = planner::ReadMeasured(text.str(), q.measured);
  if (q.gbit != 0) measured.machine.slow.bytes_per_s = q.gbit * 1e9 / 8;
  return measured;
}

planner::Machine MachineOf(const PlanQuestion& q) {
  planner::Machine machine;
  machine.slow = {.bytes_per_s = q.gbit * 1e9 / 8, .latency_s = q.latency_us * 1e-6};
  machine.fast = {.bytes_per_s = q.fast_gbit * 1e9 / 8, .latency_s = 5e-6};
  machine.full_duplex = !q.half_duplex;
  machine.idle_agreement_s = machine.busy_agreement_s = 2 * q.latency_us * 1e-6;
  machine.compute_threads = 0;
  const double element_s = 1 / q.codec_rate;
  machine.other = {element_s, element_s, element_s};
  machine.copy_s_per_byte = element_s / 4;
  machine.rotate_s = machine.difference_s = element_s;
  machine.optimizer_s = kOptimizerSeconds;
  machine.norm_s = kOptimizerSeconds / 7;
  return machine;
}

struct Answer {
  planner::TransformerShape shape;
  double parameters = 0;
  double compute_s = 0;  // of all micro-batches
  double kappa = 0;
  double flops = 0;  // 0: the time was given
  planner::Choice choice;
};

void PrintText(const PlanQuestion& q, const planner::Question& question, const Answer& answer,
               std::ostream& out) {
  const auto& shape = answer.shape;
  out << std::setprecision(4) << q.hosts << " hosts x " << q.ranks << " ranks, ";
  if (q.measured.empty()) {
    out << q.gbit << " Gbit/s between hosts " << (q.half_duplex ? "in turns" : "each way") << ", "
        << q.fast_gbit << " Gbit/s per rank inside\n";
  } else {
    out << "as measured: " << planner::Describe(question.machine, question.topology) << "\n";
  }
  out << answer.parameters / 1e9 << " G parameters: " << shape.layers << " layers, hidden "
      << shape.hidden << ", feed-forward " << shape.intermediate << ", " << shape.vocab
      << " words; " << q.tokens << " tokens per rank and micro-batch, " << q.micro_batches
      << " micro-batch" << (q.micro_batches == 1 ? "" : "es") << "\n"
      << "computing takes " << answer.compute_s << " s";
  if (answer.flops > 0) out << " at " << answer.flops << " FLOP/s per rank";
  out << "; kappa (time on the slow link over computing, zero3) is " << answer.kappa << "\n"
      << planner::Describe(question, answer.choice);
  const Candidate& best = answer.choice.best();
  out << "  a host sends " << best.bytes_per_param * answer.parameters / 1e9
      << " GB over the slow link in a step\n";
  if (!q.measured.empty()) return;
  out << "  assumed: codecs at " << q.codec_rate << " elements/s beside the computing, messages of "
      << q.latency_us << " us\n";
}

}  // namespace

void AddPlanOptions(CLI::App& command, PlanQuestion& q) {
  command.add_option("--hosts", q.hosts, "Hosts, joined by the slow link")->required();
  command.add_option("--ranks", q.ranks, "Ranks per host, joined by the fast link")->required();
  command.add_option("--gbit", q.gbit, "Gbit/s of a host's slow link, each way");
  command.add_option("--params", q.params, "Parameters of the model, e.g. 70e9")->required();
  command.add_option("--layers", q.layers, "Transformer blocks; left out: from --params");
  command.add_option("--hidden", q.hidden, "Width; left out: 128 per layer");
  command.add_option("--vocab", q.vocab, "Words; left out: 32000, fewer in a small model");
  const auto shown = [&](const char* name, auto& value, const char* what) {
    command.add_option(name, value, what)->capture_default_str();
  };
  shown("--tokens", q.tokens, "Tokens per rank and micro-batch");
  shown("--micro-batches", q.micro_batches, "Micro-batches per optimizer step");
  shown("--flops", q.flops, "FLOP/s that a rank reaches");
  command.add_option("--compute-s", q.compute_s,
                     "Seconds that a rank alone computes in a micro-batch, in place of --flops");
  command.add_option("--measured", q.measured,
                     "The planner.json of a run with recipe auto: links, codecs and computing as "
                     "there, in place of the options");
  command.add_option("--cores-per-rank", q.cores_per_rank,
                     "Cores that a rank has when all work; left out: as measured");
  shown("--fast-gbit", q.fast_gbit, "Gbit/s of a rank's link to the others of its host");
  shown("--latency-us", q.latency_us, "Microseconds of a small message between hosts");
  shown("--codec-rate", q.codec_rate, "Elements that a rank encodes or decodes per second");
  shown("--memory", q.memory_gib, "GiB that the engine of a rank may take; 0: no limit");
  shown("--recipe", q.recipe, "One recipe (docs/recipes.md), or all: auto chooses among them");
  shown("--loss-budget", q.loss_budget, "Percent by which the loss may be expected to rise");
  command.add_flag("--half-duplex", q.half_duplex, "The slow link carries one direction at a time");
  command.add_flag("--json", q.json, "For programs");
}

void PrintPlan(const PlanQuestion& q, std::ostream& out) {
  Check(q);
  Answer answer;
  answer.shape =
      planner::ShapeOf(q.params, {.layers = q.layers, .hidden = q.hidden, .vocab = q.vocab});
  const std::vector<zero::UnitSpec> units = planner::UnitsOf(answer.shape);
  answer.parameters = static_cast<double>(answer.shape.parameters());
  const comm::Topology topology(q.hosts, q.ranks, 0);
  zero::EngineOptions options;
  options.micro_batches = q.micro_batches;
  const std::vector<zero::UnitLayout> layout =
      zero::MakeLayout(units, q.hosts, q.ranks, options.compute);
  const std::optional<planner::Measured> measured = MeasuredBy(q);
  const double flops = measured ? measured->flops : q.flops;
  const double micro_s =
      q.compute_s > 0 ? q.compute_s
                      : planner::OperationsOf(layout, static_cast<int64_t>(q.tokens)) / flops;
  const std::vector<planner::UnitWork> work = planner::SplitWork(layout, micro_s);
  planner::Machine machine = measured ? measured->machine : MachineOf(q);
  if (q.cores_per_rank > 0) machine.cores_per_rank = q.cores_per_rank;
  const planner::Question question{
      .units = units,
      .topology = topology,
      .options = options,
      .machine = machine,
      .work = work,
      .loss_budget = q.loss_budget,
      .memory_bytes = static_cast<int64_t>(q.memory_gib * (int64_t{1} << 30))};
  answer.flops = q.compute_s > 0 ? 0 : flops;
  answer.compute_s = micro_s * q.micro_batches;
  answer.kappa = 6 * answer.parameters / question.machine.slow.bytes_per_s / answer.compute_s;
  if (q.hosts == 1) answer.kappa = 0;
  if (q.recipe == "all" || q.recipe == planner::kAuto) {
    answer.choice = planner::Choose(question);
  } else {
    answer.choice.candidates.push_back(planner::Predict(question, q.recipe));
  }
  if (!q.json) return PrintText(q, question, answer, out);
  nlohmann::ordered_json json{{"hosts", q.hosts},
                              {"ranks_per_host", q.ranks},
                              {"gbit", q.gbit},
                              {"parameters", answer.shape.parameters()},
                              {"layers", answer.shape.layers},
                              {"hidden", answer.shape.hidden},
                              {"intermediate", answer.shape.intermediate},
                              {"vocab", answer.shape.vocab},
                              {"compute_s", answer.compute_s},
                              {"kappa", answer.kappa},
                              {"chosen", answer.choice.best().recipe}};
  for (const Candidate& each : answer.choice.candidates) {
    json["recipes"].push_back(planner::ToJson(each, answer.parameters));
  }
  out << json.dump(2) << "\n";
}

}  // namespace thinwire::app
