// Training that is saved, loaded by another engine and gone on with: the same bits as without.
#include <gtest/gtest.h>

#include "thinwire/io/testing.h"
#include "thinwire/zero/checkpoint.h"
#include "thinwire/zero/fake_cluster.h"

namespace thinwire::zero {
namespace {

constexpr int64_t kSavedAt = 2, kSteps = 4;

// The ranks' hashes of all they own after kSteps; the first run saves on its way, one that resumes
// loads that.
std::vector<uint64_t> RunOf(const std::string& optimizer, const std::string& directory,
                            bool resume) {
  FakeCluster cluster;
  cluster.options.recipe = "hpz";
  cluster.options.optimizer = optim::ByName(optimizer);
  if (optimizer == "sgd_momentum") {
    for (optim::GroupSettings& group : cluster.options.groups) group.momentum = 0.9f;
  }
  cluster.units[0].trainable = cluster.units[2].trainable = false;
  const OptimizerIdentity identity = IdentityOf(*cluster.options.optimizer);
  std::vector<uint64_t> hashes(4);
  cluster.RunWell([&](FakeRank r) {
    const io::AllAgree all_agree = [&](bool ok) { return r.engine.MeanOverRanks(ok ? 1 : 0) == 1; };
    if (resume) {
      const auto owned = r.engine.Owned();
      const Checkpoint loaded = LoadCheckpoint(
          io::RealFileSystem(), StrCat(directory, "/step-", kSavedAt),
          {.units = cluster.units, .owned = owned, .optimizer = identity}, all_agree);
      r.engine.RefreshWeights(
          {.steps = loaded.step(), .loss_scale = {.scale = 1, .good_steps = kSavedAt}});
    } else {
      InitializeFake(r.engine);
      FakeTraining(r.engine, r.rank, 0, kSavedAt);
      const auto owned = r.engine.Owned();
      SaveCheckpoint(io::AtomicDirectory(io::RealFileSystem(), directory), {r.rank, 4, all_agree},
                     {.units = cluster.units,
                      .owned = owned,
                      .optimizer = identity,
                      .step = kSavedAt,
                      .hosts = 2,
                      .ranks_per_host = 2});
    }
    FakeTraining(r.engine, r.rank, kSavedAt, kSteps);
    hashes[static_cast<size_t>(r.rank)] = HashOwned(r.engine);
  });
  return hashes;
}

TEST(EngineResume, IsBitForBitWithEveryOptimizerAndFrozenUnits) {
  for (const char* optimizer : {"adamw", "sgd", "sgd_momentum", "lion", "lamb"}) {
    io::TestDirectory directory;
    const std::vector<uint64_t> straight = RunOf(optimizer, directory.path(), false);
    EXPECT_EQ(RunOf(optimizer, directory.path(), true), straight) << optimizer;
  }
}

}  // namespace
}  // namespace thinwire::zero
