// The timeline as a Chrome trace: the format is described in "Trace Event Format" (Google, 2016).
#include <cstdio>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "thinwire/base/error.h"
#include "thinwire/zero/timeline.h"

namespace thinwire::zero {
namespace {

constexpr std::array<const char*, kTracks> kThreads = {"caller", "fast lane, out", "fast lane, in",
                                                       "slow lane, out", "slow lane, in"};

int ThreadOf(TrackOf track) { return static_cast<int>(track); }

class ChromeTrace {
 public:
  explicit ChromeTrace(const Timeline& timeline) : timeline_(timeline) {
    for (const std::string& unit : timeline.units) units_.push_back(Escaped(unit));
    for (const RankTimeline& rank : timeline.ranks) {
      for (const TraceTrack::Taken& taken : rank.tracks) {
        if (taken.states.empty()) continue;
        const int64_t first = taken.states.front().at_ns;
        zero_ns_ = zero_ns_ ? std::min(*zero_ns_, first) : first;
      }
    }
  }

  std::string Write() {
    text_ = "{\"displayTimeUnit\":\"ms\",\n\"traceEvents\":[\n";
    for (size_t r = 0; r < timeline_.ranks.size(); ++r) Rank(static_cast<int>(r));
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  struct Source {
    TrackOf track;
    TimelineSpan span;
  };
  // Of one rank: what nobody was seen to wait for yet, by unit and hop.
  using Sources = std::map<std::pair<int, size_t>, Source>;

  static std::string Escaped(const std::string& name) {
    const std::string quoted =
        nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return quoted.substr(1, quoted.size() - 2);
  }

  // Microseconds from the beginning, with all digits of a nanosecond.
  std::string Time(int64_t ns) const {
    const int64_t since = ns - zero_ns_.value_or(0);
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%lld.%03lld", static_cast<long long>(since / 1000),
                  static_cast<long long>(since % 1000));
    return text.data();
  }

  std::string UnitName(int unit) const {
    return unit < 0 ? std::string() : units_.at(static_cast<size_t>(unit));
  }

  template <typename... Parts>
  void Event(const Parts&... parts) {
    if (!std::exchange(first_, false)) text_ += ",\n";
    text_ += StrCat("{", parts..., "}");
  }

  void Named(const char* what, int rank, int thread, const std::string& name, int order) {
    Event("\"ph\":\"M\",\"pid\":", rank, ",\"tid\":", thread, ",\"name\":\"", what,
          "_name\",\"args\":{\"name\":\"", name, "\"}");
    Event("\"ph\":\"M\",\"pid\":", rank, ",\"tid\":", thread, ",\"name\":\"", what,
          "_sort_index\",\"args\":{\"sort_index\":", order, "}");
  }

  std::string NameOfSpan(const TimelineSpan& span) const {
    switch (span.doing) {
      case Doing::kCompute:
        return StrCat(span.again ? "backward " : "forward ", UnitName(span.unit));
      case Doing::kOutside:
      case Doing::kPass:
      case Doing::kAwaitReduces:
      case Doing::kAwaitRanks:
      case Doing::kNorm:
      case Doing::kOptimizer:
      case Doing::kIdle:
        return std::string(NameOf(span.doing));
      case Doing::kFillGradients:
      case Doing::kAwaitWeights:
      case Doing::kAwaitGradientBuffer:
        return StrCat(NameOf(span.doing), ": ", UnitName(span.unit));
      default:
        return StrCat(NameOf(span.doing), ": ", NameOf(span.hop), " ", UnitName(span.unit));
    }
  }

  void Span(int rank, TrackOf track, const TimelineSpan& span) {
    const bool waits = NameOf(span.doing).starts_with("wait");
    const bool exchange = track != TrackOf::kCaller && span.unit >= 0;
    const std::string args =
        exchange ? StrCat(",\"args\":{\"hop\":\"", NameOf(span.hop), "\",\"unit\":\"",
                          UnitName(span.unit), "\",\"chunk\":", span.chunk,
                          ",\"bytes\":", span.bytes, "}")
                 : std::string();
    Event("\"ph\":\"X\",\"pid\":", rank, ",\"tid\":", ThreadOf(track),
          ",\"ts\":", Time(span.begin_ns), ",\"dur\":", Duration(span), ",\"cat\":\"",
          waits ? "wait" : "work", "\",\"name\":\"", NameOfSpan(span), "\"", args);
  }

  static std::string Duration(const TimelineSpan& span) {
    const int64_t ns = span.end_ns - span.begin_ns;
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%lld.%03lld", static_cast<long long>(ns / 1000),
                  static_cast<long long>(ns % 1000));
    return text.data();
  }

  void Rank(int rank) {
    const RankTimeline& held = timeline_.ranks[static_cast<size_t>(rank)];
    Named("process", rank, 0,
          StrCat("rank ", rank, " (host ", timeline_.host_of_rank[static_cast<size_t>(rank)], ")"),
          rank);
    for (size_t t = 0; t < kTracks; ++t) {
      Named("thread", rank, static_cast<int>(t), kThreads[t], static_cast<int>(t));
    }
    for (const TimelineStep& step : StepsOf(held.of(TrackOf::kCaller))) {
      Span(rank, TrackOf::kCaller, step);
    }
    std::vector<Source> all;
    for (size_t t = 0; t < kTracks; ++t) {
      for (const TimelineSpan& span : SpansOf(held.tracks[t])) {
        // What a lane does when there is nothing to do is better left blank.
        if (span.doing == Doing::kIdle) continue;
        Span(rank, static_cast<TrackOf>(t), span);
        all.push_back({static_cast<TrackOf>(t), span});
      }
    }
    InFlight(rank, "fast lane", held.of(TrackOf::kFastOut), held.of(TrackOf::kFastIn));
    InFlight(rank, "slow lane", held.of(TrackOf::kSlowOut), held.of(TrackOf::kSlowIn));
    Arrows(rank, std::move(all));
  }

  void Span(int rank, TrackOf track, const TimelineStep& step) {
    Event("\"ph\":\"X\",\"pid\":", rank, ",\"tid\":", ThreadOf(track),
          ",\"ts\":", Time(step.begin_ns),
          ",\"dur\":", Duration({.begin_ns = step.begin_ns, .end_ns = step.end_ns}),
          ",\"cat\":\"step\",\"name\":\"step ", step.step, "\"");
  }

  // Several are under way at once, and end in the order in which they began.
  void InFlight(int rank, const char* lane, const TraceTrack::Taken& out,
                const TraceTrack::Taken& in) {
    std::deque<TimelineSpan> sent;
    for (const TimelineSpan& span : SpansOf(out)) {
      if (span.doing == Doing::kSend) sent.push_back(span);
    }
    for (const TimelineSpan& span : SpansOf(in)) {
      if (span.doing != Doing::kDecode || sent.empty()) continue;
      const TimelineSpan begun = sent.front();
      // One that began before the timeline ends first.
      if (begun.hop != span.hop || begun.unit != span.unit || begun.chunk != span.chunk) continue;
      sent.pop_front();
      ++flights_;
      for (const bool end : {false, true}) {
        Event("\"ph\":\"", end ? "e" : "b", "\",\"pid\":", rank,
              ",\"tid\":0,\"ts\":", Time(end ? span.end_ns : begun.begin_ns), ",\"id\":", flights_,
              ",\"cat\":\"", lane, " in flight\",\"name\":\"", NameOf(span.hop), " ",
              UnitName(span.unit), "\",\"args\":{\"chunk\":", span.chunk, ",\"bytes\":", span.bytes,
              "}");
      }
    }
  }

  void Arrow(int rank, const char* name, const Source& from, const Source& to, int64_t at_ns) {
    const int64_t from_ns = (from.span.begin_ns + from.span.end_ns) / 2;
    if (at_ns < from_ns) return;
    ++arrows_;
    Event("\"ph\":\"s\",\"pid\":", rank, ",\"tid\":", ThreadOf(from.track),
          ",\"ts\":", Time(from_ns), ",\"id\":", arrows_, ",\"cat\":\"dependency\",\"name\":\"",
          name, "\"");
    Event("\"ph\":\"f\",\"bp\":\"e\",\"pid\":", rank, ",\"tid\":", ThreadOf(to.track),
          ",\"ts\":", Time(at_ns), ",\"id\":", arrows_, ",\"cat\":\"dependency\",\"name\":\"", name,
          "\"");
  }

  // In the order in which they end, what was waited for comes before who waited.
  void Arrows(int rank, std::vector<Source> all) {
    std::ranges::stable_sort(all, {}, [](const Source& each) { return each.span.end_ns; });
    Sources sources;
    const auto take = [&](int unit, Hop hop) {
      const auto found = sources.find({unit, Index(hop)});
      return found == sources.end() ? std::optional<Source>()
                                    : std::optional(sources.extract(found).mapped());
    };
    for (const Source& each : all) {
      const TimelineSpan& span = each.span;
      if (span.doing == Doing::kAwaitWeights) {
        const auto gather = take(span.unit, Hop::kFastGather);
        if (gather && gather->span.end_ns > span.begin_ns) {
          Arrow(rank, "weights", *gather, each, span.end_ns - 1);
        }
      } else if (span.doing == Doing::kSend && span.hop == Hop::kSlowReduce) {
        if (const auto sum = take(span.unit, Hop::kFastReduce)) {
          Arrow(rank, "gradients", *sum, each, span.begin_ns);
        }
      } else if (span.doing == Doing::kSend && span.hop == Hop::kFastGather) {
        if (const auto slice = take(span.unit, Hop::kSlowGather)) {
          Arrow(rank, "slice", *slice, each, span.begin_ns);
        }
      } else if (span.doing == Doing::kDecode) {
        sources.insert_or_assign({span.unit, Index(span.hop)}, each);
      }
    }
  }

  const Timeline& timeline_;
  std::vector<std::string> units_;  // for JSON
  std::optional<int64_t> zero_ns_;
  std::string text_;
  bool first_ = true;
  int64_t flights_ = 0;
  int64_t arrows_ = 0;
};

}  // namespace

std::string ToChromeTrace(const Timeline& timeline) { return ChromeTrace(timeline).Write(); }

}  // namespace thinwire::zero
