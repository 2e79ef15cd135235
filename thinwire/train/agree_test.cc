#include "thinwire/train/agree.h"

#include <gtest/gtest.h>

#include <array>

#include "thinwire/base/error.h"
#include "thinwire/transport/thread_ranks.h"

namespace thinwire::train {
namespace {

// What each of two ranks says, started with these overrides.
std::array<std::string, 2> Said(const std::array<std::vector<std::string>, 2>& overrides,
                                std::array<uint64_t, 2> data = {7, 7}) {
  std::array<std::string, 2> said;
  transport::ThreadFabric fabric(2);
  transport::RunRanks(fabric, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    const Config config = ParseConfig(R"({"data": {"files": "a"}})", "c.json", overrides[r]);
    try {
      AgreeOnConfig(fabric.transport(rank), config, data[r]);
    } catch (const PeerError& error) {
      said[r] = error.what();
    }
  });
  return said;
}

std::vector<std::string> Recipe(const std::string& recipe) {
  return {"parallel.recipe=\"" + recipe + "\""};
}

TEST(AgreeOnConfig, NamesTheKeyAndBothValues) {
  // Whatever the hash of the config is: its bits are no flags of the exchange.
  for (int seed = 0; seed < 16; ++seed) {
    const std::vector<std::string> one{StrCat("training.seed=", seed)};
    EXPECT_EQ(Said({one, one})[0], "");
    for (const std::string& said : Said({one, {StrCat("training.seed=", seed + 1)}})) {
      EXPECT_NE(said.find(StrCat("rank 0 wants training.seed = ", seed,
                                 "; rank 1 wants training.seed = ", seed + 1)),
                std::string::npos)
          << said;
    }
  }
  for (const std::string& said : Said({}, {7, 8})) {
    EXPECT_NE(said.find("data.files with other names or sizes"), std::string::npos) << said;
  }
}

TEST(AgreeOnConfig, NamesARecipeThatOnlyOneLeavesOpen) {
  for (const std::string& said : Said({Recipe("auto"), Recipe("zero++")})) {
    EXPECT_NE(
        said.find("rank 0 wants parallel.recipe = auto; rank 1 wants parallel.recipe by name"),
        std::string::npos)
        << said;
  }
  const auto both = [](const char* other) {
    return std::vector<std::string>{"parallel.recipe=\"auto\"", other};
  };
  for (const std::string& said :
       Said({both("data.sequence_length=64"), both("parallel.hosts=0")})) {
    EXPECT_NE(said.find("data.sequence_length"), std::string::npos) << said;
  }
}

// Their texts differ after 80 characters only.
TEST(AgreeOnConfig, NamesTheHopOfLongRecipes) {
  const std::string begin =
      "slow_gather=int8/128, fast_gather=codes, fast_reduce=int4/128, keep=codes, slow_reduce=";
  for (const std::string& said : Said({Recipe(begin + "int4/64"), Recipe(begin + "int8/32")})) {
    EXPECT_NE(said.find("rank 0 wants parallel.recipe with slow_reduce=int4/64; "
                        "rank 1 wants parallel.recipe with slow_reduce=int8/32"),
              std::string::npos)
        << said;
  }
}

TEST(AgreeOnConfig, TakesTheSameRecipeInOtherWords) {
  for (const std::string& said : Said({Recipe("zero++"), Recipe("qgz + hpz+qwz")})) {
    EXPECT_EQ(said, "");
  }
}

TEST(AgreeOnConfig, TheChecksumIsTheSameOnAll) {
  for (const std::string& said : Said({{{"parallel.checksum=true"}, {}}})) {
    EXPECT_NE(said.find("rank 0 wants parallel.checksum = true"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace thinwire::train
