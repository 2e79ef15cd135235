#include "thinwire/train/report.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "thinwire/base/process_memory.h"

namespace thinwire::train {
namespace {

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

nlohmann::ordered_json NumberOrNull(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

double Mib(double bytes) { return bytes / (1 << 20); }

}  // namespace

Meter::Meter(zero::Engine& engine) : engine_(engine) { Continue(); }

Meter::Sent Meter::Now() const {
  const zero::Traffic traffic = engine_.traffic();
  return {traffic.slow_bytes(), traffic.messages[zero::Index(zero::Hop::kSlowGather)] +
                                    traffic.messages[zero::Index(zero::Hop::kSlowReduce)]};
}

Meter::Sent Meter::Settle() {
  engine_.Owned();  // comes back when no transfer reads the weights any more
  return Now();
}

Meter::Interval Meter::EndStep() {
  const double now = Seconds();
  const int64_t bytes = Now().bytes;
  const Interval interval{now - begin_s_, bytes - begin_bytes_};
  if (cold_) {
    span_begin_ = Settle();
    span_steps_ = 0;
  } else {
    seconds_.push_back(interval.seconds);
    ++span_steps_;
  }
  begin_s_ = now;
  begin_bytes_ = bytes;
  cold_ = false;
  return interval;
}

void Meter::Pause() {
  if (cold_) return;
  const Sent now = Settle();
  sent_.bytes += now.bytes - span_begin_.bytes;
  sent_.messages += now.messages - span_begin_.messages;
  steps_ += span_steps_;
  cold_ = true;
}

void Meter::Continue() {
  begin_bytes_ = Settle().bytes;
  cold_ = true;
  begin_s_ = Seconds();
}

double Meter::median_seconds() const {
  if (seconds_.empty()) return 0;
  std::vector<double> sorted = seconds_;
  const auto middle = sorted.begin() + std::ssize(sorted) / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

double Meter::PerStep(int64_t sum) const {
  return steps_ == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(steps_);
}
double Meter::slow_bytes_per_step() const { return PerStep(sent_.bytes); }
double Meter::slow_messages_per_step() const { return PerStep(sent_.messages); }

void Gather(zero::Engine& engine, const Meter& meter, int64_t tokens_per_step,
            int64_t memory_before, RunResult& result) {
  const zero::Plan& plan = engine.plan();
  const int world = plan.topology.world();
  const double per_rank = engine.MeanOverRanks(meter.slow_bytes_per_step());
  result.slow_bytes_per_param =
      per_rank * plan.topology.ranks_per_host() / static_cast<double>(plan.parameters);
  result.slow_messages_per_step =
      engine.MeanOverRanks(meter.slow_messages_per_step()) * plan.topology.ranks_per_host();
  result.median_step_s = engine.MeanOverRanks(meter.median_seconds());
  result.counted_steps = meter.counted_steps();
  result.tokens_per_s =
      result.median_step_s > 0 ? static_cast<double>(tokens_per_step) / result.median_step_s : 0;
  const auto mine = static_cast<double>(PeakResidentBytes() - memory_before);
  for (int rank = 0; rank < world; ++rank) {
    const double sum = engine.MeanOverRanks(rank == plan.topology.rank() ? mine : 0) * world;
    result.peak_memory.push_back(std::llround(sum));
  }
}

std::string Describe(const zero::Plan& plan, const RunResult& result) {
  const int64_t peak = *std::ranges::max_element(result.peak_memory);
  std::ostringstream text;
  text << std::fixed << std::setprecision(3);
  text << "finished step " << result.step << ": loss " << result.loss;
  if (std::isfinite(result.evaluation_loss)) text << ", on unseen text " << result.evaluation_loss;
  text << "\n  " << result.median_step_s << " s per step, " << std::setprecision(0)
       << result.tokens_per_s << " tokens/s (median of " << result.counted_steps << " steps)\n"
       << std::setprecision(3);
  text << "  slow link, payload per parameter, host and step: measured "
       << result.slow_bytes_per_param << ", predicted " << plan.predicted_bytes_per_param
       << ", formula " << plan.formula_bytes_per_param << "\n"
       << std::setprecision(1);
  text << "  memory of a rank: peak " << Mib(static_cast<double>(peak))
       << " MiB with activations and the communication library, planned for the engine "
       << Mib(static_cast<double>(plan.memory_bytes())) << " MiB";
  return text.str();
}

std::string ToJson(const zero::Plan& plan, const RunResult& result) {
  nlohmann::ordered_json memory = nlohmann::ordered_json::object();
  for (const zero::MemoryItem& item : plan.memory) memory[item.kind] = item.bytes;
  return nlohmann::ordered_json{
             {"step", result.step},
             {"loss", NumberOrNull(result.loss)},
             {"evaluation_loss", NumberOrNull(result.evaluation_loss)},
             {"stopped", result.stopped},
             {"recipe", plan.recipe.name},
             {"hosts", plan.topology.hosts()},
             {"ranks_per_host", plan.topology.ranks_per_host()},
             {"parameters", plan.parameters},
             {"median_step_s", result.median_step_s},
             {"tokens_per_s", result.tokens_per_s},
             {"counted_steps", result.counted_steps},
             {"slow_bytes_per_param", result.slow_bytes_per_param},
             {"slow_messages_per_step", result.slow_messages_per_step},
             {"predicted_bytes_per_param", plan.predicted_bytes_per_param},
             {"formula_bytes_per_param", plan.formula_bytes_per_param},
             {"peak_memory_bytes", *std::ranges::max_element(result.peak_memory)},
             {"peak_memory_bytes_of_rank", result.peak_memory},
             {"planned_memory_bytes", plan.memory_bytes()},
             {"planned_memory", memory}}
             .dump(2) +
         "\n";
}

}  // namespace thinwire::train
