#include "thinwire/zero/program.h"

#include <gtest/gtest.h>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"

namespace thinwire::zero {
namespace {

// "a0 r0 g0": acquire, release and reduce of unit 0.
std::vector<Event> Events(const std::string& text) {
  std::vector<Event> events;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    const EventKind kind = text[i] == 'a'   ? EventKind::kAcquire
                           : text[i] == 'r' ? EventKind::kRelease
                                            : EventKind::kReduce;
    events.push_back({kind, text[++i] - '0'});
  }
  return events;
}

// "0:0@-1": unit 0 into buffer 0, to start after event -1.
std::string Gathers(const Program& program) {
  std::string text;
  for (const GatherStep& g : program.gathers) {
    text += StrCat(text.empty() ? "" : " ", g.unit, ":", g.buffer, "@", g.after_event);
  }
  return text;
}

// "G0 R0": the first gather, the first reduce.
std::string Order(const Program& program) {
  std::string text;
  for (const Operation& o : program.order) {
    text += StrCat(text.empty() ? "" : " ", o.gather ? "G" : "R", o.index);
  }
  return text;
}

TEST(Program, OneBufferGathersAfterEachRelease) {
  const Program p = CompileProgram(Events("a0r0 a1r1 a1r1g1 a0r0g0"), 1);
  EXPECT_EQ(Gathers(p), "0:0@-1 1:0@1 0:0@5");
  EXPECT_EQ(Order(p), "G0 G1 G2 R0 R1");
  EXPECT_EQ(p.gather_of_event, (std::vector<int>{0, -1, 1, -1, 1, -1, -1, 2, -1, -1}));
  EXPECT_EQ(p.reduce_of_event, (std::vector<int>{-1, -1, -1, -1, -1, -1, 0, -1, -1, 1}));
  EXPECT_EQ(p.reduces, (std::vector<int>{1, 0}));
}

TEST(Program, TwoBuffersPrefetchAndKeepWhatIsNeededFirst) {
  // Forward 0 1 2, backward 2 1 0: at the gather of 2 the buffers hold 0 and 1, of which 0 is
  // needed later; then 2 and 1 serve backward without a gather, and 0 replaces 2 once it is done.
  const Program p = CompileProgram(Events("a0r0 a1r1 a2r2 a2r2g2 a1r1g1 a0r0g0"), 2);
  EXPECT_EQ(Gathers(p), "0:0@-1 1:1@-1 2:0@1 0:0@7");
  EXPECT_EQ(Order(p), "G0 G1 G2 G3 R0 R1 R2");
}

TEST(Program, BuffersForAllGatherOnce) {
  const Program p = CompileProgram(Events("a0r0 a1r1 a2r2 a2r2g2 a1r1g1 a0r0g0"), 3);
  EXPECT_EQ(Gathers(p), "0:0@-1 1:1@-1 2:2@-1");
  EXPECT_EQ(Gathers(CompileProgram(Events("a0r0 a1r1 a0r0"), 9)), "0:0@-1 1:1@-1");
}

TEST(Program, AUnitThatIsHeldTwiceAndOneThatIsHeldLong) {
  // Unit 0 is held by two users at once; unit 1 must not take its buffer between the releases.
  const Program p = CompileProgram(Events("a0a0r0 a1r1 r0 a2r2"), 2);
  EXPECT_EQ(Gathers(p), "0:0@-1 1:1@-1 2:1@4");
  EXPECT_THROW(CompileProgram(Events("a0a0r0a1"), 1), UsageError);
  EXPECT_THROW(CompileProgram(Events("r0"), 1), InternalError);
  EXPECT_THROW(CompileProgram(Events("a0r0r0"), 1), InternalError);
  EXPECT_THROW(CompileProgram({}, -1), InternalError);
}

TEST(Program, ResidentUnitsAreNotGathered) {
  const Program p = CompileProgram(Events("a0a1r0r1 a1r1g1 g0"), 0);
  EXPECT_TRUE(p.gathers.empty());
  EXPECT_EQ(p.reduces, (std::vector<int>{1, 0}));
  EXPECT_EQ(p.order.size(), 2u);
}

TEST(Program, EmptyAndTypicalPass) {
  EXPECT_TRUE(CompileProgram({}, 3).order.empty());
  EXPECT_EQ(TypicalPass({true, false, true}), Events("a0r0 a1r1 a2r2 a2r2g2 g1 a0r0g0"));
}

TEST(Program, FingerprintTellsProgramsApart) {
  const uint64_t a = CompileProgram(Events("a0r0 a1r1"), 2).fingerprint;
  EXPECT_EQ(CompileProgram(Events("a0r0 a1r1"), 2).fingerprint, a);
  EXPECT_NE(CompileProgram(Events("a0r0 a1r1"), 1).fingerprint, a);
  EXPECT_NE(CompileProgram(Events("a1r1 a0r0"), 2).fingerprint, a);
  EXPECT_NE(CompileProgram(Events("a0a1r0r1"), 2).fingerprint, a);
  EXPECT_NE(CompileProgram(Events("a0r0 g1 a1r1"), 2).fingerprint, a);
}

// Random passes that hold at most `buffers` units at once.
std::vector<Event> RandomEvents(uint64_t seed, int buffers) {
  const CounterRandom random(seed);
  const int units = 1 + static_cast<int>(random.Bits(0) % 7);
  std::vector<int> held(static_cast<size_t>(units));
  int distinct = 0;
  std::vector<Event> events;
  for (uint64_t i = 0; i < 60; ++i) {
    const int unit = static_cast<int>(random.Bits(2 * i + 1) % static_cast<uint64_t>(units));
    int& count = held[static_cast<size_t>(unit)];
    switch (random.Bits(2 * i + 2) % 5) {
      case 0:
        events.push_back({EventKind::kReduce, unit});
        break;
      case 1:
      case 2:
        if (count == 0) break;
        events.push_back({EventKind::kRelease, unit});
        if (--count == 0) --distinct;
        break;
      default:
        if (count == 0 && distinct == buffers) break;
        if (count++ == 0) ++distinct;
        events.push_back({EventKind::kAcquire, unit});
    }
  }
  return events;
}

// Runs the program as early as it may go: each gather overwrites its buffer as soon as
// after_event is done. No buffer may change while it is held, and each acquire finds its unit.
void Simulate(const Program& p, int buffers) {
  std::vector<int> content(static_cast<size_t>(buffers), -1), held(content.size(), 0);
  size_t started = 0;
  const auto start_until = [&](int event) {
    for (; started < p.gathers.size() && p.gathers[started].after_event <= event; ++started) {
      const GatherStep& g = p.gathers[started];
      ASSERT_EQ(held[static_cast<size_t>(g.buffer)], 0) << "gather " << started;
      content[static_cast<size_t>(g.buffer)] = g.unit;
    }
  };
  start_until(-1);
  for (size_t e = 0; e < p.events.size(); ++e) {
    const Event& event = p.events[e];
    if (event.kind == EventKind::kAcquire) {
      ASSERT_GE(p.gather_of_event[e], 0);
      ASSERT_LT(static_cast<size_t>(p.gather_of_event[e]), started);
      const GatherStep& g = p.gathers[static_cast<size_t>(p.gather_of_event[e])];
      ASSERT_EQ(g.unit, event.unit);
      ASSERT_EQ(content[static_cast<size_t>(g.buffer)], event.unit) << "event " << e;
      ++held[static_cast<size_t>(g.buffer)];
    } else if (event.kind == EventKind::kRelease) {
      size_t b = 0;
      while (b < content.size() && (content[b] != event.unit || held[b] == 0)) ++b;
      ASSERT_LT(b, content.size());
      --held[b];
    }
    start_until(static_cast<int>(e));
    if (testing::Test::HasFatalFailure()) return;
  }
  ASSERT_EQ(started, p.gathers.size());
}

// An exchange never waits for one behind it: at each event, what the caller then waits for stands
// in the order before everything that needs a later event.
void CheckOrder(const Program& p) {
  std::vector<int> needs;  // the events that must be done before the operation may start
  int gathers = 0, reduces = 0, last_after = -1;
  size_t reduce_event = 0;
  for (const Operation& o : p.order) {
    if (o.gather) {
      ASSERT_EQ(o.index, gathers++);
      const int after = p.gathers[static_cast<size_t>(o.index)].after_event;
      ASSERT_GE(after, last_after);
      last_after = after;
      needs.push_back(after);
    } else {
      ASSERT_EQ(o.index, reduces++);
      while (p.reduce_of_event[reduce_event] != o.index) ++reduce_event;
      needs.push_back(static_cast<int>(reduce_event));
    }
  }
  ASSERT_EQ(static_cast<size_t>(gathers), p.gathers.size());
  ASSERT_EQ(static_cast<size_t>(reduces), p.reduces.size());
  for (size_t e = 0; e < p.events.size(); ++e) {
    if (p.gather_of_event[e] < 0) continue;
    for (size_t i = 0; i < p.order.size(); ++i) {
      ASSERT_LT(needs[i], static_cast<int>(e)) << "event " << e << " waits behind operation " << i;
      if (p.order[i].gather && p.order[i].index == p.gather_of_event[e]) break;
    }
  }
}

// The fewest gathers that any choice of buffers needs, by trying all choices.
size_t FewestGathers(const std::vector<Event>& events, int buffers) {
  struct Search {
    const std::vector<Event>& events;
    size_t best = SIZE_MAX;
    std::vector<int> unit, held;
    void From(size_t e, size_t gathers) {
      while (e < events.size() && events[e].kind == EventKind::kReduce) ++e;
      if (gathers >= best) return;
      if (e == events.size()) {
        best = gathers;
        return;
      }
      size_t holder = 0;
      while (holder < unit.size() && unit[holder] != events[e].unit) ++holder;
      const int change = events[e].kind == EventKind::kAcquire ? 1 : -1;
      if (holder < unit.size()) {
        held[holder] += change;
        From(e + 1, gathers);
        held[holder] -= change;
        return;
      }
      for (size_t b = 0; b < unit.size(); ++b) {
        if (held[b] > 0) continue;
        const int before = std::exchange(unit[b], events[e].unit);
        held[b] = 1;
        From(e + 1, gathers + 1);
        held[b] = 0;
        unit[b] = before;
      }
    }
  };
  Search search{events, SIZE_MAX, std::vector<int>(static_cast<size_t>(buffers), -1),
                std::vector<int>(static_cast<size_t>(buffers))};
  search.From(0, 0);
  return search.best;
}

TEST(Program, RandomPassesNeverOverwriteWhatIsHeldNorWaitForTheFuture) {
  for (const int buffers : {1, 2, 3, 5, 16}) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      SCOPED_TRACE(testing::Message() << buffers << " buffers, seed " << seed);
      const Program p = CompileProgram(RandomEvents(seed, buffers), buffers);
      Simulate(p, buffers);
      CheckOrder(p);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Program, GathersAsRarelyAsPossible) {
  for (const int buffers : {1, 2, 3}) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      std::vector<Event> events = RandomEvents(seed, buffers);
      events.resize(std::min<size_t>(events.size(), 24));
      EXPECT_EQ(CompileProgram(events, buffers).gathers.size(), FewestGathers(events, buffers))
          << buffers << " buffers, seed " << seed;
    }
  }
}

}  // namespace
}  // namespace thinwire::zero
