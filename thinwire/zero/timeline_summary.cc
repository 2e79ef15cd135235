// Where the time of each step went, for people.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <span>

#include "thinwire/base/error.h"
#include "thinwire/zero/timeline.h"

namespace thinwire::zero {
namespace {

using Seconds = std::array<double, kDoings>;

double& At(Seconds& seconds, Doing doing) { return seconds[static_cast<size_t>(doing)]; }

// What a track did in a step.
Seconds Within(std::span<const TimelineSpan> spans, const TimelineStep& step) {
  Seconds seconds{};
  for (const TimelineSpan& span : spans) {
    const int64_t begin = std::max(span.begin_ns, step.begin_ns);
    const int64_t end = std::min(span.end_ns, step.end_ns);
    if (end > begin) At(seconds, span.doing) += 1e-9 * static_cast<double>(end - begin);
  }
  return seconds;
}

struct StepTimes {
  int64_t step = 0;
  double seconds = 0;
  std::array<Seconds, kTracks> tracks{};
};

// The mean over ranks of each step that all of them have.
std::vector<StepTimes> TimesOf(const Timeline& timeline) {
  std::vector<StepTimes> times;
  for (size_t r = 0; r < timeline.ranks.size(); ++r) {
    const RankTimeline& rank = timeline.ranks[r];
    const std::vector<TimelineStep> steps = StepsOf(rank.of(TrackOf::kCaller));
    if (r == 0) times.resize(steps.size());
    times.resize(std::min(times.size(), steps.size()));
    const double part = 1 / static_cast<double>(timeline.ranks.size());
    for (size_t t = 0; t < kTracks; ++t) {
      const std::vector<TimelineSpan> spans = SpansOf(rank.tracks[t]);
      for (size_t s = 0; s < times.size(); ++s) {
        const Seconds seconds = Within(spans, steps[s]);
        for (size_t d = 0; d < kDoings; ++d) times[s].tracks[t][d] += part * seconds[d];
      }
    }
    for (size_t s = 0; s < times.size(); ++s) {
      times[s].step = steps[s].step;
      times[s].seconds += part * 1e-9 * static_cast<double>(steps[s].end_ns - steps[s].begin_ns);
    }
  }
  return times;
}

struct Column {
  const char* title;
  TrackOf track;
  std::vector<Doing> doings;
};

const std::vector<Column>& Columns() {
  using enum Doing;
  using enum TrackOf;
  static const std::vector<Column> columns = {
      {"compute", kCaller, {kPass, kCompute, kFillGradients}},
      {"weights", kCaller, {kAwaitWeights}},
      {"buffers", kCaller, {kAwaitGradientBuffer}},
      {"reduces", kCaller, {kAwaitReduces}},
      {"ranks", kCaller, {kAwaitRanks}},
      {"optimizer", kCaller, {kNorm, kOptimizer}},
      {"outside", kCaller, {kOutside}},
      {"fast: send", kFastOut, {kSend}},
      {"peers", kFastIn, {kAwaitPeers}},
      {"decode", kFastIn, {kDecode}},
      {"slow: send", kSlowOut, {kSend}},
      {"peers", kSlowIn, {kAwaitPeers}},
      {"decode", kSlowIn, {kDecode}},
  };
  return columns;
}

double Value(const StepTimes& times, const Column& column) {
  const Seconds& seconds = times.tracks[static_cast<size_t>(column.track)];
  double sum = 0;
  for (const Doing doing : column.doings) sum += seconds[static_cast<size_t>(doing)];
  return sum;
}

std::string Padded(const char* format, auto value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

struct Advice {
  const char* column;  // of the caller
  const char* meaning;
};
constexpr Advice kAdvice[] = {
    {"weights",
     "weights come late. More parallel.prefetch hides gathers behind more computing; a recipe that "
     "keeps a slice (hpz, zero++) or codes weights sends less before it"},
    {"buffers",
     "gradients leave more slowly than they are made: fewer bits on the fast reduce (qgz, zero++)"},
    {"reduces",
     "the last gradients are on their way when backward is over: fewer bits on the slow reduce, or "
     "smaller units at the model's beginning, whose gradients come last"},
    {"ranks", "ranks reach the same point at different times: look for the slow one in the trace"},
};

// Where the slow lane has no pause to speak of, waits for what it brings follow from that.
std::string AdviseOnSlowLink(const std::vector<StepTimes>& times, double whole) {
  double busy = 0;
  for (const StepTimes& each : times) {
    for (const Column& column : Columns()) {
      if (column.track == TrackOf::kSlowIn) busy += Value(each, column);
    }
  }
  if (busy < 0.75 * whole) return "";
  return StrCat("  ", Padded("%.0f", 100 * busy / whole),
                " % of the time the slow link is in use: it sets the pace. Send less in a step (a "
                "recipe with fewer bits) or step less often (more training.micro_batches)\n");
}

// Waits that take more than a twentieth of the time, the longest first.
std::string Advise(const std::vector<StepTimes>& times) {
  double whole = 0;
  for (const StepTimes& each : times) whole += each.seconds;
  const std::string limit = AdviseOnSlowLink(times, whole);
  if (!limit.empty()) return limit;
  std::vector<std::pair<double, std::string>> lines;
  for (const Advice& advice : kAdvice) {
    const auto column = std::ranges::find_if(Columns(), [&](const Column& each) {
      return std::string_view(each.title) == advice.column;
    });
    double waited = 0;
    for (const StepTimes& each : times) waited += Value(each, *column);
    if (waited < 0.05 * whole) continue;
    lines.push_back({waited, StrCat("  ", Padded("%.0f", 100 * waited / whole),
                                    " % of the time: ", advice.meaning, "\n")});
  }
  std::ranges::sort(lines, std::greater<>());
  std::string text;
  for (const auto& [waited, line] : lines) text += line;
  return text;
}

}  // namespace

std::string Summarize(const Timeline& timeline) {
  const std::vector<StepTimes> times = TimesOf(timeline);
  std::string text = StrCat("where the time went, ms per step, means over ", timeline.ranks.size(),
                            timeline.ranks.size() == 1 ? " rank" : " ranks",
                            " (weights, buffers, reduces, ranks: waited for)\n");
  text += Padded("%8s", "step") + Padded("%9s", "whole");
  for (const Column& column : Columns()) text += Padded("%11s", column.title);
  text += "\n";
  for (const StepTimes& each : times) {
    text += Padded("%8lld", static_cast<long long>(each.step));
    text += Padded("%9.1f", 1e3 * each.seconds);
    for (const Column& column : Columns()) text += Padded("%11.1f", 1e3 * Value(each, column));
    text += "\n";
  }
  text += Advise(times);
  if (timeline.ranks.size() > 1) {
    text += timeline.clock_error_s == 0
                ? "  the ranks share a clock\n"
                : StrCat("  clocks of hosts are aligned to within ",
                         Padded("%.2f", 1e3 * timeline.clock_error_s), " ms\n");
  }
  if (timeline.lost() > 0) {
    text += StrCat("  the room for it was full: ", timeline.lost(),
                   " states at the end are missing. Trace fewer steps\n");
  }
  return text;
}

}  // namespace thinwire::zero
