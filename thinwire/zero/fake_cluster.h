// N x L ranks as threads, each with an engine of its own, for tests of what they do to each other.
// Other than transport::RunRanks, nothing here tells a rank of another one's failure: only the
// engines do. A run that hangs ends the test program.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/transport/counting_transport.h"
#include "thinwire/transport/fault_transport.h"
#include "thinwire/transport/in_process_board.h"
#include "thinwire/transport/thread_transport.h"
#include "thinwire/zero/fake_model.h"

namespace thinwire::zero {

// Ends the program when it lives for too long.
class HangGuard {
 public:
  explicit HangGuard(std::chrono::seconds limit = std::chrono::seconds(40))
      : thread_([this, limit] {
          std::unique_lock lock(mutex_);
          if (changed_.wait_for(lock, limit, [&] { return over_; })) return;
          std::fprintf(stderr, "the ranks of a test hang\n");
          std::abort();
        }) {}
  ~HangGuard() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

struct FakeRank {
  int rank;
  Engine& engine;
  transport::CountingTransport& bulk;
  transport::InProcessBoard& board;
};

// What a rank came to.
struct Outcome {
  std::string error;  // empty when it ended well
  bool peer_error = false;
  std::chrono::steady_clock::time_point at;
};

struct FakeCluster {
  int hosts = 2;
  int locals = 2;
  EngineOptions options = FakeOptions();
  std::vector<UnitSpec> units = FakeUnits();
  // What one rank has differently.
  std::function<void(int rank, EngineOptions&, std::vector<UnitSpec>&)> change =
      [](int, EngineOptions&, std::vector<UnitSpec>&) {};
  std::function<ExecContext(int rank)> context = [](int) { return ExecContext(); };
  std::vector<std::string> machines{};  // of the ranks, when they are not contiguous
  // Of rank 1; message 0 is none.
  transport::Fault bulk_fault{.kind = transport::Fault::Kind::kFailOnce, .message = 0};
  transport::Fault control_fault{.kind = transport::Fault::Kind::kFailOnce, .message = 0};
  // What stands between an engine and its bulk link, when it returns something.
  std::function<std::unique_ptr<transport::Transport>(int rank, transport::Transport& link)> wrap =
      [](int, transport::Transport&) { return nullptr; };
  // Messages that passed rank 1's links in the last run.
  int64_t posted = 0;
  int64_t posted_control = 0;

  static EngineOptions FakeOptions() {
    EngineOptions options{.compute = DType::kF32, .wire = DType::kF32, .chunk_bytes = 4096};
    options.deadline = std::chrono::milliseconds(20'000);
    return options;
  }

  Plan PlanOf(int rank) const {
    EngineOptions own = options;
    std::vector<UnitSpec> own_units = units;
    change(rank, own, own_units);
    return MakePlan(own_units,
                    machines.empty()
                        ? comm::Topology(hosts, locals, rank)
                        : comm::Topology::Resolve(rank, hosts * locals, 0, 0, machines),
                    own);
  }

  std::vector<Outcome> Run(const std::function<void(FakeRank)>& body) {
    const int world = hosts * locals;
    const HangGuard guard;
    transport::ThreadFabric bulk(world), control(world);
    transport::InProcessBoard board(world);
    std::vector<Outcome> outcomes(static_cast<size_t>(world));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world; ++rank) {
      threads.emplace_back([&, rank] {
        Outcome& outcome = outcomes[static_cast<size_t>(rank)];
        const transport::Fault none{.kind = transport::Fault::Kind::kFailOnce, .message = 0};
        transport::FaultTransport faulty(bulk.transport(rank), rank == 1 ? bulk_fault : none);
        transport::FaultTransport faulty_control(control.transport(rank),
                                                 rank == 1 ? control_fault : none);
        const auto wrapped = wrap(rank, faulty);
        transport::CountingTransport counted(wrapped ? *wrapped : faulty);
        try {
          Engine engine(PlanOf(rank), {counted, faulty_control, board}, context(rank));
          body({rank, engine, counted, board});
        } catch (const PeerError& error) {
          outcome = {error.what(), true, {}};
        } catch (const std::exception& error) {
          outcome = {error.what(), false, {}};
        }
        outcome.at = std::chrono::steady_clock::now();
        if (rank != 1) return;
        posted = faulty.posted();
        posted_control = faulty_control.posted();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

  // Throws what a rank threw, for runs that must end well.
  void RunWell(const std::function<void(FakeRank)>& body) {
    for (const Outcome& outcome : Run(body)) {
      if (!outcome.error.empty()) throw InternalError(outcome.error);
    }
  }
};

// Trains steps [begin, end) with all their micro-batches.
inline void FakeTraining(Engine& engine, int rank, int64_t begin, int64_t end,
                         const FakeTwist& twist = {}) {
  const int micro_batches = engine.plan().options.micro_batches;
  for (int64_t step = begin; step < end; ++step) {
    for (int micro = 0; micro < micro_batches; ++micro) {
      FakePass(engine, rank, step, micro, micro + 1 == micro_batches, twist);
    }
    engine.Step({.lr = FakeLr(step), .loss = FakeLoss(rank, step)});
  }
}

// Gathers every unit in an evaluation pass and appends the hashes of their bits.
inline void FakeEvaluation(Engine& engine, std::vector<uint64_t>& seen) {
  engine.BeginPass(PassKind::kEvaluate, true);
  for (size_t u = 0; u < engine.plan().units.size(); ++u) {
    const std::byte* data = engine.Acquire(static_cast<int>(u));
    const int64_t bytes = engine.plan().units[u].flat_bytes();
    seen.push_back(HashBytes({reinterpret_cast<const char*>(data), static_cast<size_t>(bytes)}));
    engine.Release(static_cast<int>(u));
  }
  engine.EndPass();
}

// Bits of everything this rank owns.
inline uint64_t HashOwned(Engine& engine) {
  uint64_t hash = 0;
  const auto mix = [&](std::span<const float> values) {
    hash = HashBytes({reinterpret_cast<const char*>(values.data()), values.size_bytes()}, hash);
  };
  for (const OwnedStretch& owned : engine.Owned()) {
    mix(owned.master);
    for (const std::span<float> state : owned.states) mix(state);
  }
  return hash;
}

}  // namespace thinwire::zero
