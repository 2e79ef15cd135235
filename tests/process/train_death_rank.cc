// One rank of train_death_test: a training run without a model, over real processes, in which one
// rank (the victim) goes wrong.
//   train_death_rank EVENT PLACE STEP VICTIM DEADLINE_MS STEPS RECIPE
//     EVENT  none | kill | stop | throw | sleep (two deadlines) | config (other settings)
//            busy_kill (kill, while the next rank is busy for a while)
//     PLACE  forward | backward | step (before the optimizer step); of step STEP, from 0
// Exit code 0 after a good run, 2 after a UsageError, 3 after a PeerError.
#include <sys/prctl.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "thinwire/base/error.h"
#include "thinwire/comm/topology.h"
#include "thinwire/launch/process_group.h"
#include "thinwire/torch/torch_log.h"
#include "thinwire/zero/engine.h"

namespace thinwire {
namespace {

using std::chrono::milliseconds;

struct Arguments {
  std::string event, place;
  int64_t step = 0;
  int victim = 0;
  milliseconds deadline{0};
  int64_t steps = 6;
  std::string recipe;
};

int64_t ResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") {
      int64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024;
    }
  }
  return -1;
}

std::vector<zero::UnitSpec> Units() {
  return {{"embed", {{"embed.w", {64, 256}}}, false},
          {"block0", {{"b0.w", {256, 256}}, {"b0.norm", {256}}}},
          {"block1", {{"b1.w", {256, 256}}, {"b1.norm", {256}}}},
          {"head", {{"head.w", {64, 256}}}}};
}

class Run {
 public:
  Run(const Arguments& arguments, int rank) : arguments_(arguments), rank_(rank) {}

  void Steps(zero::Engine& engine) {
    for (const zero::OwnedStretch& owned : engine.Owned()) {
      for (float& w : owned.master) w = 0.01f;
    }
    engine.RefreshWeights(0);
    for (int64_t step = 0; step < arguments_.steps; ++step) {
      Pass(engine, step);
      Reach("step", step);
      engine.Step({.lr = 1e-3f, .loss = 1});
      if (arguments_.event == "none" && (step == 19 || step + 1 == arguments_.steps)) {
        std::printf("resident at %lld: %lld\n", static_cast<long long>(step + 1),
                    static_cast<long long>(ResidentBytes()));
      }
    }
  }

 private:
  void Pass(zero::Engine& engine, int64_t step) {
    const int units = static_cast<int>(engine.plan().units.size());
    engine.BeginPass(zero::PassKind::kTrain, true);
    for (int u = 0; u < units; ++u) {
      engine.Acquire(u);
      if (u == 1) Reach("forward", step);
      engine.Release(u);
    }
    for (int u = units - 1; u >= 0; --u) {
      const zero::UnitLayout& unit = engine.plan().units[static_cast<size_t>(u)];
      if (unit.spec.weights_in_backward) {
        engine.Acquire(u);
        if (u == 2) Reach("backward", step);
        engine.Release(u);
      }
      std::memset(engine.GradientBuffer(u), 0x3c, static_cast<size_t>(unit.numel()) * 2);
      engine.ReduceGradients(u);
    }
    engine.EndPass();
  }

  void Reach(const char* place, int64_t step) {
    if (place != arguments_.place || step != arguments_.step) return;
    if (arguments_.event == "busy_kill" && rank_ == arguments_.victim + 1) {
      std::this_thread::sleep_for(milliseconds(2500));
    }
    if (rank_ != arguments_.victim) return;
    // The clock is the machine's: the test reads the same one.
    std::printf("event at %lld\n",
                static_cast<long long>(std::chrono::duration_cast<milliseconds>(
                                           std::chrono::steady_clock::now().time_since_epoch())
                                           .count()));
    std::fflush(stdout);
    if (arguments_.event.ends_with("kill")) raise(SIGKILL);
    if (arguments_.event == "stop") raise(SIGSTOP);
    if (arguments_.event == "throw") throw UsageError("the data ends here");
    if (arguments_.event == "sleep") std::this_thread::sleep_for(2 * arguments_.deadline);
  }

  const Arguments& arguments_;
  const int rank_;
};

int Play(const Arguments& arguments) {
  try {
    const auto environment = launch::LaunchEnvironment::FromVariables();
    launch::ProcessGroup group(environment, arguments.deadline, true);
    const comm::Topology topology(environment.world / 2, 2, environment.rank);
    zero::EngineOptions options{.recipe = arguments.recipe, .prefetch = 1, .chunk_bytes = 1 << 16};
    options.deadline = arguments.deadline;
    if (arguments.event == "config" && environment.rank == arguments.victim) options.prefetch = 2;
    zero::Engine engine(zero::MakePlan(Units(), topology, options),
                        {group.bulk(), group.control(), group.board()});
    Run(arguments, environment.rank).Steps(engine);
    return 0;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  } catch (const PeerError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 3;
  }
}

}  // namespace
}  // namespace thinwire

int main(int argc, char** argv) {
  // Ends with the test that started it, even when that is killed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc != 8) return 64;
  thinwire::adapter::QuietTorchLog();
  return thinwire::Play({.event = argv[1],
                         .place = argv[2],
                         .step = std::atol(argv[3]),
                         .victim = std::atoi(argv[4]),
                         .deadline = std::chrono::milliseconds(std::atol(argv[5])),
                         .steps = std::atol(argv[6]),
                         .recipe = argv[7]});
}
