#include "thinwire/comm/lane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>

#include "thinwire/base/error.h"

namespace thinwire::comm {
namespace {

// What jobs did, in order: "p0 l0 c0 f0" for job 0 prepared, launched, completed, finished.
class Log {
 public:
  void Add(char what, int job) {
    const std::lock_guard lock(mutex_);
    text_ += StrCat(text_.empty() ? "" : " ", what, job);
  }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

class FakeJob final : public Job {
 public:
  FakeJob(Log& log, int index) : log_(log), index_(index) {}

  void Prepare(MessageSlot&, transport::Tag tag) override {
    tag_ = tag;
    log_.Add('p', index_);
    Throw('p');
  }
  bool Ready() override {
    Throw('r');
    return ready_;
  }
  void Launch(MessageSlot&) override {
    log_.Add('l', index_);
    Throw('l');
  }
  void Complete(MessageSlot&) override {
    log_.Add('c', index_);
    while (held_) std::this_thread::yield();
    Throw('c');
  }
  void Finished() override { log_.Add('f', index_); }
  std::string Describe() const override { return StrCat("job ", index_); }

  bool ready_ = true;               // with the monitor's lock held
  std::atomic<bool> held_ = false;  // Complete does not return
  char throws_at_ = ' ';
  transport::Tag tag_ = 0;

 private:
  void Throw(char where) const {
    if (throws_at_ == where) throw PeerError(StrCat("rank 3 is gone (", where, ")"));
  }
  Log& log_;
  int index_;
};

struct Fixture {
  Monitor monitor;
  Log log;
  std::deque<FakeJob> jobs;
  std::vector<std::string> failures;
  std::unique_ptr<Lane> lane;

  Fixture(int job_count, int window) {
    for (int i = 0; i < job_count; ++i) jobs.emplace_back(log, i);
    lane = std::make_unique<Lane>(
        monitor, LaneOptions{.slot_bytes = 64, .members = 2, .window = window, .tag_base = 1 << 29},
        [this](std::exception_ptr error) {
          try {
            std::rethrow_exception(error);
          } catch (const std::exception& known) {
            failures.push_back(known.what());
          }
          monitor.Fail(error);
        });
  }
  void PushAll() {
    monitor.Update([&] {
      for (FakeJob& job : jobs) lane->PushLocked(&job);
    });
  }
  void AwaitIdle() {
    monitor.Wait([&] { return lane->IdleLocked(); });
  }
};

TEST(Lane, OneAtATime) {
  Fixture f(3, 1);
  f.PushAll();
  f.AwaitIdle();
  EXPECT_EQ(f.log.text(), "p0 l0 c0 f0 p1 l1 c1 f1 p2 l2 c2 f2");
}

// Of one kind of step, without the others.
std::string Only(char what, const std::string& text) {
  std::string found;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    found += text.substr(at, text.find(' ', at) - at) + " ";
  }
  return found;
}

TEST(Lane, AWindowPreparesAndSendsAhead) {
  Fixture f(4, 2);
  f.jobs[0].held_ = true;  // its peers' messages do not come
  f.PushAll();
  while (f.log.text().find("l1") == std::string::npos) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(Only('p', f.log.text()), "p0 p1 ") << "no more than two are under way";
  EXPECT_EQ(Only('f', f.log.text()), "");
  f.jobs[0].held_ = false;
  f.AwaitIdle();
  for (const char what : {'p', 'l', 'c', 'f'}) {
    EXPECT_EQ(Only(what, f.log.text()), StrCat(what, "0 ", what, "1 ", what, "2 ", what, "3 "));
  }
}

TEST(Lane, SendsWhatBecomesReadyWhileAnEarlierJobWaitsForItsPeers) {
  Fixture f(2, 2);
  f.jobs[0].held_ = true;
  f.jobs[1].ready_ = false;
  f.PushAll();
  while (f.log.text().find("c0") == std::string::npos) std::this_thread::yield();
  f.monitor.Update([&] { f.jobs[1].ready_ = true; });
  while (f.log.text().find("l1") == std::string::npos) std::this_thread::yield();
  EXPECT_EQ(f.log.text(), "p0 p1 l0 c0 l1");
  f.jobs[0].held_ = false;
  f.AwaitIdle();
}

TEST(Lane, AJobThatIsNotReadyHoldsBackThoseBehindIt) {
  Fixture f(3, 3);
  f.jobs[1].ready_ = false;
  f.PushAll();
  // Job 0 goes all the way, job 2 no further than prepared.
  while (f.log.text().find("f0") == std::string::npos) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(f.log.text(), "p0 p1 p2 l0 c0 f0");
  f.monitor.Update([&] { f.jobs[1].ready_ = true; });
  f.AwaitIdle();
  for (const char what : {'l', 'c', 'f'}) {
    EXPECT_EQ(Only(what, f.log.text()), StrCat(what, "0 ", what, "1 ", what, "2 "));
  }
}

TEST(Lane, ManyJobsKeepTheirOrderAndTags) {
  Fixture f(500, 3);
  // The ring grows while its oldest job is not in its first place.
  f.monitor.Update([&] {
    for (size_t i = 0; i < 40; ++i) f.lane->PushLocked(&f.jobs[i]);
  });
  f.AwaitIdle();
  f.jobs[40].ready_ = false;  // so that the others wait all at once
  f.monitor.Update([&] {
    for (size_t i = 40; i < 500; ++i) f.lane->PushLocked(&f.jobs[i]);
  });
  f.monitor.Update([&] { f.jobs[40].ready_ = true; });
  f.AwaitIdle();
  std::string finished, expected;
  const std::string text = f.log.text();
  for (size_t at = text.find('f'); at != std::string::npos; at = text.find('f', at + 1)) {
    finished += text.substr(at, text.find(' ', at) - at) + " ";
  }
  for (int i = 0; i < 500; ++i) {
    expected += StrCat("f", i, " ");
    EXPECT_EQ(f.jobs[static_cast<size_t>(i)].tag_, (1u << 29) + static_cast<uint32_t>(i));
  }
  EXPECT_EQ(finished, expected);
  // A job may be pushed again once it is finished.
  f.PushAll();
  f.AwaitIdle();
  EXPECT_EQ(f.jobs[499].tag_, (1u << 29) + 999u);
}

TEST(Lane, AnErrorInAnyPlaceIsReportedOnceWithTheJobsName) {
  for (const char where : {'p', 'l', 'c'}) {
    Fixture f(3, 2);
    f.jobs[1].throws_at_ = where;
    f.PushAll();
    EXPECT_THROW(f.AwaitIdle(), PeerError);
    f.lane.reset();
    ASSERT_EQ(f.failures.size(), 1u) << where;
    EXPECT_EQ(f.failures[0], StrCat("job 1: rank 3 is gone (", where, ")"));
    EXPECT_EQ(f.log.text().find("f1"), std::string::npos) << f.log.text();
  }
}

TEST(Lane, AnErrorOutsideOfTheStepsIsNotSwallowed) {
  Fixture f(1, 1);
  f.jobs[0].throws_at_ = 'r';
  f.PushAll();
  EXPECT_THROW(f.AwaitIdle(), PeerError);
  f.lane.reset();
  EXPECT_EQ(f.failures.size(), 1u);
}

TEST(Lane, EndsWithJobsThatNeverBecomeReady) {
  Fixture f(2, 2);
  f.jobs[0].ready_ = false;
  f.PushAll();
  f.lane.reset();  // does not hang
  EXPECT_TRUE(f.failures.empty());
  EXPECT_EQ(f.log.text().find('l'), std::string::npos);
}

TEST(Lane, StopsWhenAnotherPartFails) {
  Fixture f(1, 1);
  f.jobs[0].ready_ = false;
  f.PushAll();
  f.monitor.Fail(std::make_exception_ptr(PeerError("rank 2 is gone")));
  EXPECT_THROW(f.AwaitIdle(), PeerError);
  f.lane.reset();
  EXPECT_TRUE(f.failures.empty());  // it was reported by whoever saw it
}

}  // namespace
}  // namespace thinwire::comm
