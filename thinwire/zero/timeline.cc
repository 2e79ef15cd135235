#include "thinwire/zero/timeline.h"

#include <algorithm>

#include "thinwire/base/error.h"

namespace thinwire::zero {
namespace {

Doing DoingOf(const TraceState& state) { return static_cast<Doing>(state.doing); }

// What the caller is about, as its moments tell.
class Caller {
 public:
  // What it does from this state on.
  TimelineSpan Follow(const TraceState& state) {
    TimelineSpan span{.doing = DoingOf(state), .unit = state.subject, .begin_ns = state.at_ns};
    switch (span.doing) {
      case Doing::kPass:
        training_ = state.part != 0;
        in_pass_ = true;
        computed_.clear();
        held_.clear();
        break;
      case Doing::kOutside:
        in_pass_ = false;
        break;
      case Doing::kCompute:
        held_.push_back({state.subject, training_ && std::ranges::count(computed_, state.subject)});
        span.again = held_.back().again;
        break;
      case Doing::kReleased: {
        computed_.push_back(state.subject);
        const auto last =
            std::ranges::find(held_.rbegin(), held_.rend(), state.subject, &Held::unit);
        if (last != held_.rend()) held_.erase(std::next(last).base());
        return Rest(state.at_ns);
      }
      case Doing::kReduced:
      case Doing::kStepped:
        return Rest(state.at_ns);
      default:
        break;
    }
    return span;
  }

 private:
  struct Held {
    int unit = -1;
    bool again = false;
  };

  TimelineSpan Rest(int64_t at_ns) const {
    if (!in_pass_) return {.doing = Doing::kOutside, .begin_ns = at_ns};
    if (held_.empty()) return {.doing = Doing::kPass, .begin_ns = at_ns};
    return {.doing = Doing::kCompute,
            .unit = held_.back().unit,
            .again = held_.back().again,
            .begin_ns = at_ns};
  }

  bool training_ = false;
  bool in_pass_ = false;
  std::vector<int> computed_;  // units of the pass that were released
  std::vector<Held> held_;
};

bool IsOfLane(Doing doing) { return doing >= Doing::kIdle && doing <= Doing::kDecode; }

}  // namespace

std::string_view NameOf(Doing doing) {
  constexpr std::string_view kNames[] = {"outside",
                                         "pass",
                                         "compute",
                                         "fill gradients",
                                         "wait for weights",
                                         "wait for a buffer",
                                         "wait for reduces",
                                         "wait for ranks",
                                         "norm",
                                         "optimizer",
                                         "idle",
                                         "wait for input",
                                         "send",
                                         "wait for peers",
                                         "decode"};
  static_assert(std::size(kNames) == kDoings);
  THINWIRE_CHECK(static_cast<size_t>(doing) < kDoings, "a moment has no name");
  return kNames[static_cast<size_t>(doing)];
}

int64_t Timeline::lost() const {
  int64_t lost = 0;
  for (const RankTimeline& rank : ranks) {
    for (const TraceTrack::Taken& taken : rank.tracks) lost += taken.lost;
  }
  return lost;
}

std::vector<TimelineSpan> SpansOf(const TraceTrack::Taken& taken) {
  std::vector<TimelineSpan> spans;
  Caller caller;
  for (size_t i = 0; i < taken.states.size(); ++i) {
    const TraceState& state = taken.states[i];
    TimelineSpan span = IsOfLane(DoingOf(state)) ? TimelineSpan{.doing = DoingOf(state),
                                                                .hop = static_cast<Hop>(state.kind),
                                                                .unit = state.subject,
                                                                .chunk = state.part,
                                                                .bytes = state.bytes,
                                                                .begin_ns = state.at_ns}
                                                 : caller.Follow(state);
    span.end_ns = i + 1 < taken.states.size() ? taken.states[i + 1].at_ns : taken.end_ns;
    if (span.end_ns > span.begin_ns) spans.push_back(span);
  }
  return spans;
}

std::vector<TimelineStep> StepsOf(const TraceTrack::Taken& caller) {
  std::vector<TimelineStep> steps;
  if (caller.states.empty()) return steps;
  int64_t begin = caller.states.front().at_ns;
  for (const TraceState& state : caller.states) {
    if (DoingOf(state) != Doing::kStepped) continue;
    steps.push_back({state.part, begin, state.at_ns});
    begin = state.at_ns;
  }
  return steps;
}

}  // namespace thinwire::zero
