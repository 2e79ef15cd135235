#include "thinwire/planner/pilot.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "thinwire/planner/processor_probe.h"
#include "thinwire/transport/in_process_board.h"
#include "thinwire/transport/thread_ranks.h"
#include "thinwire/zero/fake_cluster.h"

namespace thinwire::planner {
namespace {

using Clock = std::chrono::steady_clock;

// What the ranks of a host share: a link that carries one message after the other.
struct HostLink {
  std::mutex mutex;
  Clock::time_point free{};

  Clock::time_point Carry(double seconds) {
    const std::lock_guard lock(mutex);
    const auto time =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    return free = std::max(free, Clock::now()) + time;
  }
};

// Messages to other hosts take their time; they are sent when the link has carried them, so that
// the ranks of a test must exchange in lockstep, as those of a probe do.
class SlowTransport final : public transport::Transport {
 public:
  SlowTransport(transport::Transport& inner, HostLink& link, int locals, double bytes_per_s)
      : inner_(inner), link_(link), locals_(locals), bytes_per_s_(bytes_per_s) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  transport::Token Send(const ExecContext& context, int peer, transport::Tag tag,
                        std::span<const std::byte> data) override {
    if (peer / locals_ != rank() / locals_) {
      std::this_thread::sleep_until(link_.Carry(static_cast<double>(data.size()) / bytes_per_s_));
    }
    return inner_.Send(context, peer, tag, data);
  }
  transport::Token Recv(const ExecContext& context, int peer, transport::Tag tag,
                        std::span<std::byte> data) override {
    return inner_.Recv(context, peer, tag, data);
  }
  void Abort(std::string_view reason) noexcept override { inner_.Abort(reason); }

 private:
  transport::Transport& inner_;
  HostLink& link_;
  const int locals_;
  const double bytes_per_s_;
};

PilotSetup SetupOf(int hosts, int locals, int rank) {
  zero::EngineOptions options = zero::FakeCluster::FakeOptions();
  options.compute = DType::kBF16;
  options.wire = DType::kBF16;
  return {.units = {{"a", {{"a.w", {512, 512}}}}, {"b", {{"b.w", {512, 512}}}}},
          .topology = comm::Topology(hosts, locals, rank),
          .options = options,
          .compute_s = 0.001 * (rank + 1),
          .compute_origin = "guessed",
          .review_steps = 4};
}

TEST(LinkProbeTest, MeasuresAShapedLinkTheSameOnAllRanks) {
  constexpr int kHosts = 2, kLocals = 2;
  constexpr double kRate = 20e6;
  transport::ThreadFabric bulk(kHosts * kLocals), control(kHosts * kLocals);
  std::array<HostLink, kHosts> links;
  std::array<Machine, kHosts * kLocals> machines;
  transport::RunRanks({&bulk, &control}, [&](int rank) {
    SlowTransport slow(bulk.transport(rank), links[static_cast<size_t>(rank / kLocals)], kLocals,
                       kRate);
    MeasureLinks({slow, control.transport(rank)}, comm::Topology(kHosts, kLocals, rank), {},
                 machines[static_cast<size_t>(rank)]);
  });
  for (const Machine& machine : machines) {
    EXPECT_NEAR(machine.slow.bytes_per_s, kRate, 0.15 * kRate);
    EXPECT_GT(machine.fast.bytes_per_s, 2 * kRate);
    EXPECT_EQ(machine.slow.bytes_per_s, machines[0].slow.bytes_per_s);
    EXPECT_EQ(machine.fast.bytes_per_s, machines[0].fast.bytes_per_s);
    EXPECT_EQ(machine.busy_agreement_s, machines[0].busy_agreement_s);
    EXPECT_EQ(machine.cores_per_rank, UsableCores() / 4.0);
  }
}

TEST(LinkProbeTest, AWorldOfOneHasNoLinks) {
  transport::ThreadFabric bulk(1), control(1);
  Machine machine;
  MeasureLinks({bulk.transport(0), control.transport(0)}, comm::Topology(1, 1, 0), {}, machine);
  EXPECT_EQ(machine.cores_per_rank, UsableCores());
}

TEST(ProcessorProbeTest, EveryCodecOfARecipeOnce) {
  const std::vector<std::string_view> recipes{"zero3", "hpz", "zero++"};
  const auto codecs = CodecsOf(recipes, DType::kBF16);
  ASSERT_EQ(codecs.size(), 3u);
  for (const zero::CodecPtr& codec : codecs) {
    const CodecSpeed speed = MeasureCodec(*codec, {});
    EXPECT_GT(speed.encode_s, 0) << codec->name();
    EXPECT_GT(speed.decode_s, 0);
    EXPECT_GT(speed.sum_s, 0);
    EXPECT_LT(speed.encode_s + speed.decode_s + speed.sum_s, 1e-6);
  }
  Machine machine;
  MeasureArithmetic({}, machine);
  EXPECT_GT(machine.optimizer_s, machine.norm_s);
}

TEST(PilotTest, RanksWithOtherMeasurementsDecideAlike) {
  constexpr int kHosts = 2, kLocals = 2;
  transport::ThreadFabric bulk(4), control(4);
  std::array<HostLink, kHosts> links;
  std::array<std::string, 4> said;
  transport::RunRanks({&bulk, &control}, [&](int rank) {
    SlowTransport slow(bulk.transport(rank), links[static_cast<size_t>(rank / kLocals)], kLocals,
                       2e6);
    PilotSetup setup = SetupOf(kHosts, kLocals, rank);
    setup.memory_bytes = rank == 2 ? (int64_t{1} << 30) : 0;
    const Pilot pilot(setup, {slow, control.transport(rank)});
    EXPECT_LT(pilot.current().bytes_per_param, 0.8);
    EXPECT_EQ(pilot.options().recipe, pilot.current().recipe);
    said[static_cast<size_t>(rank)] = pilot.Describe();
  });
  for (const std::string& each : said) EXPECT_EQ(each, said[0]);
  EXPECT_NE(said[0].find("guessed"), std::string::npos) << said[0];
}

TEST(PilotTest, ReviewsComeWhenDueAndAreTheSameOnAllRanks) {
  zero::FakeCluster cluster;
  transport::ThreadFabric bulk(4), control(4);
  std::array<std::vector<std::string>, 4> texts;
  cluster.RunWell([&](zero::FakeRank at) {
    zero::InitializeFake(at.engine);
    PilotSetup setup = SetupOf(2, 2, at.rank);
    setup.units = cluster.units;
    setup.options = cluster.options;
    Pilot pilot(setup, {bulk.transport(at.rank), control.transport(at.rank)});
    for (int64_t step = 0; step < 22; ++step) {
      zero::FakeTraining(at.engine, at.rank, step, step + 1);
      if (step == 15) pilot.Pause();
      if (const auto review = pilot.AfterStep(at.engine)) {
        texts[static_cast<size_t>(at.rank)].push_back(review->text);
        // Steps of so small a model take longer than their arithmetic: ranks that share cores.
        const double cores = nlohmann::json::parse(pilot.ToJson())["machine"]["cores_per_rank"];
        EXPECT_LT(cores, UsableCores() / 4.0);
        EXPECT_GE(cores, UsableCores() / 16.0);
      }
    }
  });
  for (const auto& each : texts) EXPECT_EQ(each, texts[0]);
  ASSERT_EQ(texts[0].size(), 3u);  // after 13, 17 and 21 steps
  EXPECT_NE(texts[0][0].find("after 13 steps"), std::string::npos) << texts[0][0];
  EXPECT_NE(texts[0][0].find("predicted"), std::string::npos) << texts[0][0];
}

TEST(PilotTest, MovedStateIsTheRunThatStayed) {
  const auto hashes = [](bool moves) {
    std::array<uint64_t, 4> seen{};
    constexpr int kWorld = 4;
    transport::ThreadFabric bulk(kWorld), control(kWorld);
    transport::InProcessBoard board(kWorld);
    zero::FakeCluster cluster;
    transport::RunRanks({&bulk, &control}, [&](int rank) {
      const zero::Links links{bulk.transport(rank), control.transport(rank), board};
      auto engine = std::make_unique<zero::Engine>(cluster.PlanOf(rank), links);
      zero::InitializeFake(*engine);
      zero::FakeTraining(*engine, rank, 0, 3);
      if (moves) {
        zero::EngineOptions options = cluster.options;
        options.recipe = "hpz";  // fp32 on the wire: the same values
        auto next = std::make_unique<zero::Engine>(
            zero::MakePlan(cluster.units, comm::Topology(2, 2, rank), options), links);
        MoveState(*engine, *next);
        engine = std::move(next);
        EXPECT_EQ(engine->plan().recipe.name, "hpz");
      }
      zero::FakeTraining(*engine, rank, 3, 6);
      EXPECT_EQ(engine->progress().steps, 6);
      seen[static_cast<size_t>(rank)] = zero::HashOwned(*engine);
      // A farewell of the first engine would have ended the waits of the others.
      engine->Meet("the end");
    });
    return seen;
  };
  EXPECT_EQ(hashes(false), hashes(true));
}

}  // namespace
}  // namespace thinwire::planner
