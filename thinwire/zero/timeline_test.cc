#include "thinwire/zero/timeline.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "thinwire/zero/fake_cluster.h"

namespace thinwire::zero {
namespace {

using Json = nlohmann::json;

TraceState At(int64_t ns, Doing doing, int unit = -1, int part = 0) {
  return {.doing = Number(doing), .subject = unit, .part = part, .at_ns = ns};
}

TEST(Timeline, SaysWhatTheCallerGoesBackTo) {
  const TraceTrack::Taken taken{
      .states = {At(0, Doing::kOutside), At(10, Doing::kPass, -1, 1), At(20, Doing::kCompute, 7),
                 At(30, Doing::kCompute, 3), At(40, Doing::kReleased, 3),
                 At(50, Doing::kReleased, 7), At(60, Doing::kCompute, 3),
                 At(60, Doing::kReleased, 3), At(70, Doing::kReduced, 3), At(80, Doing::kOutside),
                 At(85, Doing::kNorm), At(90, Doing::kStepped, -1, 4)},
      .end_ns = 100};
  struct Expected {
    Doing doing;
    int unit;
    bool again;
    int64_t begin;
  };
  const Expected expected[] = {{Doing::kOutside, -1, false, 0},  {Doing::kPass, -1, false, 10},
                               {Doing::kCompute, 7, false, 20},  {Doing::kCompute, 3, false, 30},
                               {Doing::kCompute, 7, false, 40},  {Doing::kPass, -1, false, 50},
                               {Doing::kPass, -1, false, 60},    {Doing::kPass, -1, false, 70},
                               {Doing::kOutside, -1, false, 80}, {Doing::kNorm, -1, false, 85},
                               {Doing::kOutside, -1, false, 90}};
  const std::vector<TimelineSpan> spans = SpansOf(taken);
  ASSERT_EQ(spans.size(), std::size(expected));
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].doing, expected[i].doing) << i;
    EXPECT_EQ(spans[i].unit, expected[i].unit) << i;
    EXPECT_EQ(spans[i].again, expected[i].again) << i;
    EXPECT_EQ(spans[i].begin_ns, expected[i].begin) << i;
    EXPECT_EQ(spans[i].end_ns, i + 1 < spans.size() ? expected[i + 1].begin : 100) << i;
  }
  const std::vector<TimelineStep> steps = StepsOf(taken);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].step, 4);
  EXPECT_EQ(steps[0].end_ns, 90);
}

// What rank 0 gets of three traced steps, and what the others get.
Timeline Traced(const std::string& recipe, int hosts, int locals, int64_t slow_rank = -1) {
  const HangGuard guard;
  FakeCluster cluster{.hosts = hosts, .locals = locals};
  cluster.options.recipe = recipe;
  cluster.options.chunk_bytes = 4096;
  Timeline timeline;
  cluster.RunWell([&](FakeRank rank) {
    InitializeFake(rank.engine);
    FakeTraining(rank.engine, rank.rank, 0, 2);
    rank.engine.StartTimeline();
    for (int64_t step = 2; step < 5; ++step) {
      if (rank.rank == slow_rank) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      FakeTraining(rank.engine, rank.rank, step, step + 1);
    }
    Timeline taken = rank.engine.TakeTimeline();
    EXPECT_EQ(taken.ranks.empty(), rank.rank != 0);
    if (rank.rank == 0) timeline = std::move(taken);
    FakeTraining(rank.engine, rank.rank, 5, 6);  // goes on
  });
  return timeline;
}

TEST(Timeline, AccountsForAllTimeOfAllTracks) {
  const Timeline timeline = Traced("zero++", 2, 2);
  ASSERT_EQ(timeline.ranks.size(), 4u);
  EXPECT_EQ(timeline.host_of_rank, (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(timeline.lost(), 0);
  EXPECT_EQ(timeline.clock_error_s, 0) << "threads share a clock";
  for (const RankTimeline& rank : timeline.ranks) {
    const std::vector<TimelineStep> steps = StepsOf(rank.of(TrackOf::kCaller));
    ASSERT_EQ(steps.size(), 3u);
    EXPECT_EQ(steps[0].step, 3);
    std::set<Doing> seen;
    for (const TraceTrack::Taken& track : rank.tracks) {
      const std::vector<TimelineSpan> spans = SpansOf(track);
      ASSERT_FALSE(spans.empty());
      EXPECT_EQ(spans.front().begin_ns, track.states.front().at_ns);
      EXPECT_EQ(spans.back().end_ns, track.end_ns);
      for (size_t i = 0; i < spans.size(); ++i) {
        seen.insert(spans[i].doing);
        EXPECT_EQ(spans[i].begin_ns, i == 0 ? spans[0].begin_ns : spans[i - 1].end_ns);
      }
    }
    for (const Doing doing : {Doing::kCompute, Doing::kFillGradients, Doing::kOptimizer,
                              Doing::kSend, Doing::kAwaitPeers, Doing::kDecode, Doing::kIdle}) {
      EXPECT_TRUE(seen.contains(doing)) << NameOf(doing);
    }
  }
}

TEST(Timeline, CountsEveryExchangeOfItsSteps) {
  const Timeline timeline = Traced("zero3", 2, 1);
  std::map<Hop, int> sent, decoded;
  for (const TimelineSpan& span : SpansOf(timeline.ranks[1].of(TrackOf::kSlowOut))) {
    if (span.doing == Doing::kSend) ++sent[span.hop];
  }
  for (const TimelineSpan& span : SpansOf(timeline.ranks[1].of(TrackOf::kSlowIn))) {
    if (span.doing == Doing::kDecode) ++decoded[span.hop];
  }
  int chunks = 0;
  FakeCluster cluster{.hosts = 2, .locals = 1};
  cluster.options.recipe = "zero3";
  cluster.options.chunk_bytes = 4096;
  for (const Routes& routes : cluster.PlanOf(1).routes) {
    chunks += static_cast<int>(routes.of(Hop::kSlowReduce).size());
  }
  EXPECT_EQ(sent[Hop::kSlowReduce], 3 * chunks);
  EXPECT_EQ(decoded[Hop::kSlowReduce], 3 * chunks);
  EXPECT_EQ(sent[Hop::kSlowGather], decoded[Hop::kSlowGather]);
}

TEST(Timeline, IsAChromeTraceWhoseSpansNest) {
  const Timeline timeline = Traced("zero3", 2, 2);
  const Json trace = Json::parse(ToChromeTrace(timeline));
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> spans;
  std::map<std::pair<std::string, int64_t>, std::string> paired;
  int steps = 0;
  for (const Json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    if (phase == "M") continue;
    const double begin = event.at("ts");
    EXPECT_GE(begin, 0);
    if (phase == "X") {
      const double duration = event.at("dur");
      EXPECT_GT(duration, 0);
      spans[{event.at("pid"), event.at("tid")}].push_back({begin, begin + duration});
      steps += event.at("cat") == "step";
    } else {
      const std::string cat = event.at("cat");
      paired[{cat, event.at("id")}] += phase;
    }
  }
  EXPECT_EQ(steps, 3 * 4);
  EXPECT_EQ(spans.size(), 4 * kTracks);
  for (auto& [thread, list] : spans) {
    std::ranges::sort(list, [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    std::vector<double> open;
    for (const auto& [begin, end] : list) {
      while (!open.empty() && open.back() <= begin + 1e-6) open.pop_back();
      EXPECT_LE(end, open.empty() ? end : open.back() + 1e-6);
      open.push_back(end);
    }
  }
  bool arrows = false;
  for (const auto& [key, phases] : paired) {
    arrows = arrows || key.first == "dependency";
    EXPECT_EQ(phases, key.first == "dependency" ? "sf" : "be") << key.first;
  }
  EXPECT_TRUE(arrows);
}

TEST(Timeline, ShowsWhoWaitsForALateRank) {
  const Timeline timeline = Traced("zero++", 2, 1, 1);
  double waited = 0;
  for (const TimelineSpan& span : SpansOf(timeline.ranks[0].of(TrackOf::kCaller))) {
    if (span.doing == Doing::kAwaitRanks) waited += span.seconds();
  }
  EXPECT_GT(waited, 0.08) << "30 ms in each of three steps";
  const std::string summary = Summarize(timeline);
  EXPECT_NE(summary.find("look for the slow one"), std::string::npos) << summary;
  EXPECT_NE(summary.find("\n       5"), std::string::npos) << summary;
}

// Messages over the slow hop come one after the other.
class SlowLink final : public transport::Transport {
 public:
  explicit SlowLink(transport::Transport& link) : link_(link) {}
  int rank() const override { return link_.rank(); }
  int size() const override { return link_.size(); }
  transport::Token Send(const ExecContext& context, int peer, transport::Tag tag,
                        std::span<const std::byte> data) override {
    return link_.Send(context, peer, tag, data);
  }
  transport::Token Recv(const ExecContext& context, int peer, transport::Tag tag,
                        std::span<std::byte> data) override {
    if ((tag >> 30) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    return link_.Recv(context, peer, tag, data);
  }
  void Abort(std::string_view reason) noexcept override { link_.Abort(reason); }

 private:
  transport::Transport& link_;
};

// Codes that are passed on do not wait for the rest of the slice; at both places where they are.
TEST(Timeline, ShowsOneChunkOnTheFastHopWhileTheNextIsOnTheSlowOne) {
  for (const char* recipe : {"qwz", "zero++"}) {
    const HangGuard guard;
    FakeCluster cluster;
    cluster.options.recipe = recipe;
    cluster.options.chunk_bytes = 4096;
    cluster.units = {{"big", {{"w", {512, 256}}}}};  // shards of 32 KiB in int8: 9 chunks
    cluster.wrap = [](int, transport::Transport& link) { return std::make_unique<SlowLink>(link); };
    Timeline timeline;
    cluster.RunWell([&](FakeRank rank) {
      InitializeFake(rank.engine);
      FakeTraining(rank.engine, rank.rank, 0, 2);
      rank.engine.StartTimeline();
      FakeTraining(rank.engine, rank.rank, 2, 4);
      Timeline taken = rank.engine.TakeTimeline();
      if (rank.rank == 0) timeline = std::move(taken);
    });
    std::vector<int64_t> came, passed;
    for (const TimelineSpan& span : SpansOf(timeline.ranks[3].of(TrackOf::kSlowIn))) {
      if (span.doing == Doing::kDecode && span.hop == Hop::kSlowGather) came.push_back(span.end_ns);
    }
    for (const TimelineSpan& span : SpansOf(timeline.ranks[3].of(TrackOf::kFastOut))) {
      if (span.doing == Doing::kSend && span.hop == Hop::kFastGather) {
        passed.push_back(span.begin_ns);
      }
    }
    ASSERT_GE(came.size(), 9u) << recipe;
    int early = 0;  // chunks on the fast hop before the last of their slice has come
    for (size_t last = 8; last < came.size(); last += 9) {
      for (const int64_t at : passed) {
        early += at > came[last - 8] && at < came[last];
      }
    }
    EXPECT_GE(early, 4) << recipe;
  }
}

TEST(Timeline, ASummaryAddsUp) {
  const Timeline timeline = Traced("zero3", 1, 2);
  for (const RankTimeline& rank : timeline.ranks) {
    for (const TimelineStep& step : StepsOf(rank.of(TrackOf::kCaller))) {
      int64_t sum = 0;
      for (const TimelineSpan& span : SpansOf(rank.of(TrackOf::kCaller))) {
        if (span.begin_ns >= step.begin_ns && span.end_ns <= step.end_ns) {
          sum += span.end_ns - span.begin_ns;
        }
      }
      EXPECT_EQ(sum, step.end_ns - step.begin_ns);
    }
  }
}

TEST(Timeline, ThatOneRankWantsAloneIsAnError) {
  const HangGuard guard;
  FakeCluster cluster{.hosts = 2, .locals = 1};
  const std::vector<Outcome> outcomes = cluster.Run([](FakeRank rank) {
    InitializeFake(rank.engine);
    rank.engine.StartTimeline();
    if (rank.rank == 0) rank.engine.TakeTimeline();
    FakeTraining(rank.engine, rank.rank, 0, 1);
  });
  for (const Outcome& outcome : outcomes) {
    EXPECT_NE(outcome.error.find("the clocks of a timeline"), std::string::npos) << outcome.error;
  }
}

}  // namespace
}  // namespace thinwire::zero
