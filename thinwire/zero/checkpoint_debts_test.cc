// What the slow reduce owes, saved and found again.
#include "thinwire/zero/checkpoint_debts.h"

#include <gtest/gtest.h>

#include <fstream>

#include "thinwire/base/error.h"
#include "thinwire/io/testing.h"
#include "thinwire/zero/checkpoint_format.h"

namespace thinwire::zero {
namespace {

const std::vector<UnitSpec> kUnits{{"embedding", {}}, {"block", {}}, {"norm", {}}};

struct Owed {
  std::vector<std::byte> embedding = std::vector<std::byte>(100);
  std::vector<std::byte> block = std::vector<std::byte>(33);

  explicit Owed(int value) {
    std::ranges::fill(embedding, std::byte(value));
    std::ranges::fill(block, std::byte(value + 1));
  }
  // The last unit has no matrices.
  Debts As(const std::string& layout) {
    return {.layout = layout, .by_unit = {embedding, block, {}}};
  }
};

void Save(const std::string& directory, int rank, const Debts& debts) {
  std::vector<io::TensorToWrite> tensors;
  std::map<std::string, std::string> metadata;
  AddDebts(kUnits, debts, tensors, metadata);
  io::WriteSafetensors(io::RealFileSystem(), directory + "/" + RankFileName(rank),
                       std::move(tensors), metadata);
}

TEST(CheckpointDebts, AreThoseOfTheRankAndTheLayout) {
  const io::TestDirectory directory;
  Owed first(7), second(50);
  Save(directory.path(), 0, first.As("2 x 2"));
  Save(directory.path(), 1, second.As("2 x 2"));
  const auto load = [&](int rank, const std::string& layout, Owed& to) {
    return LoadDebts(io::RealFileSystem(), directory.path(), rank, kUnits, to.As(layout));
  };
  Owed found(99);
  EXPECT_TRUE(load(1, "2 x 2", found));
  EXPECT_EQ(found.embedding, second.embedding);
  EXPECT_EQ(found.block, second.block);
  const Owed nothing(0);
  for (const auto& [rank, layout] : {std::pair(1, "4 x 1"), {2, "2 x 2"}}) {
    Owed other(99);
    EXPECT_FALSE(load(rank, layout, other));
    EXPECT_EQ(other.embedding, nothing.embedding);
    EXPECT_EQ(other.block, std::vector<std::byte>(33));
  }
  // An engine without feedback looks for nothing, and a file without debts has none to give.
  EXPECT_TRUE(LoadDebts(io::RealFileSystem(), directory.path(), 0, kUnits, {}));
  Save(directory.path(), 3, {});
  EXPECT_FALSE(load(3, "2 x 2", found));
}

TEST(CheckpointDebts, DamageIsFound) {
  const io::TestDirectory directory;
  Owed owed(7);
  Save(directory.path(), 0, owed.As("2 x 2"));
  const std::string path = directory.path() + "/" + RankFileName(0);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('x');
  }
  Owed found(99);
  EXPECT_THROW(LoadDebts(io::RealFileSystem(), directory.path(), 0, kUnits, found.As("2 x 2")),
               UsageError);
}

}  // namespace
}  // namespace thinwire::zero
