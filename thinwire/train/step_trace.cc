#include "thinwire/train/step_trace.h"

#include <charconv>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/io/file.h"
#include "thinwire/zero/timeline.h"

namespace thinwire::train {
namespace {

constexpr int64_t kSteps = 4;
constexpr int64_t kCold = 2;

bool Parse(std::string_view text, int64_t& value) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && at == end && value > 0;
}

}  // namespace

StepRange TracedSteps(std::string_view text, int64_t done) {
  if (text.empty()) return {done + kCold + 1, done + kCold + kSteps};
  StepRange steps;
  const size_t dots = text.find("..");
  const std::string_view last = dots == std::string_view::npos ? text : text.substr(dots + 2);
  if (!Parse(text.substr(0, dots), steps.first) || !Parse(last, steps.last) ||
      steps.last < steps.first) {
    throw UsageError(StrCat("output.trace_steps: expected steps such as 5..8, found ", text));
  }
  return steps;
}

StepTrace::StepTrace(zero::Engine& engine, std::string path, StepRange steps,
                     std::function<void(const std::string&)> say)
    : engine_(engine), path_(std::move(path)), steps_(steps), say_(std::move(say)) {}

void StepTrace::Before(int64_t step) {
  if (path_.empty() || step != steps_.first) return;
  engine_.StartTimeline();
  runs_ = true;
}

bool StepTrace::After(int64_t step) { return step == steps_.last && End(); }

bool StepTrace::End() {
  if (!std::exchange(runs_, false)) return false;
  const zero::Timeline timeline = engine_.TakeTimeline();
  if (timeline.ranks.empty()) return true;
  std::string where =
      StrCat("the trace is in ", path_, ": open it in https://ui.perfetto.dev or chrome://tracing");
  try {
    io::WriteFileAtomically(io::RealFileSystem(), path_, zero::ToChromeTrace(timeline));
  } catch (const IoError& error) {
    where = StrCat("no trace: ", error.what());  // which is no reason to end a run
  }
  say_(StrCat(zero::Summarize(timeline), "  ", where));
  return true;
}

}  // namespace thinwire::train
