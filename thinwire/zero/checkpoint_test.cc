#include "thinwire/zero/checkpoint.h"

#include <gtest/gtest.h>

#include <barrier>
#include <bit>
#include <fstream>
#include <functional>
#include <thread>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/io/fault_file_system.h"
#include "thinwire/io/safetensors.h"
#include "thinwire/io/testing.h"

namespace thinwire::zero {
namespace {

using Json = nlohmann::json;
using io::AtomicDirectory;
using io::MessageOf;
using io::TestDirectory;

// AllAgree over `world` threads.
class Agreement {
 public:
  explicit Agreement(int world) : barrier_(world, Conclude{this}) {}

  io::AllAgree hook() {
    return [this](bool ok) {
      if (!ok) all_ = false;
      barrier_.arrive_and_wait();
      const bool result = result_;
      barrier_.arrive_and_wait();  // all have read it
      return result;
    };
  }

 private:
  struct Conclude {
    Agreement* self;
    void operator()() noexcept {
      self->result_ = self->all_;
      if (self->reading_) self->all_ = true;
      self->reading_ = !self->reading_;
    }
  };
  std::atomic<bool> all_{true};
  bool result_ = true;
  bool reading_ = false;
  std::barrier<Conclude> barrier_;
};

const std::vector<UnitSpec> kUnits{
    {"embedding", {{"embed.weight", {13, 7}}}},
    {"block.0", {{"block.0.wq", {5, 3, 2}}, {"block.0.norm", {11}}, {"block.0.empty", {0, 4}}}},
    {"root", {{"scale", {}}, {"norm/master@0", {17}}}},
};

const OptimizerIdentity kAdamW{"AdamW", {"m", "v"}};

// Any bits, NaNs and subnormals among them: a function of parameter, kind, element and version.
float ValueOf(const std::string& name, uint64_t kind, int64_t element, uint64_t version) {
  const CounterRandom random(HashBytes(name, kind + 16 * version));
  return std::bit_cast<float>(static_cast<uint32_t>(random.Bits(static_cast<uint64_t>(element))));
}

int64_t NumelOf(const ParameterSpec& spec) {
  int64_t numel = 1;
  for (const int64_t extent : spec.shape) numel *= extent;
  return numel;
}

// What one rank owns: of every unit the elements in [rank, rank + 1) / world, as a flat would be
// cut.
class Owner {
 public:
  Owner(const std::vector<UnitSpec>& units, int rank, int world) : units_(units) {
    for (size_t u = 0; u < units.size(); ++u) {
      int64_t size = 0;
      for (const ParameterSpec& spec : units[u].parameters) size += NumelOf(spec);
      const int64_t begin = size * rank / world, end = size * (rank + 1) / world;
      int64_t start = 0;
      for (size_t p = 0; p < units[u].parameters.size(); ++p) {
        const int64_t numel = NumelOf(units[u].parameters[p]);
        const int64_t from = std::max(begin, start), to = std::min(end, start + numel);
        if (from < to) Add(u, p, from - start, static_cast<size_t>(to - from));
        start += numel;
      }
    }
  }

  const std::vector<OwnedStretch>& owned() const { return owned_; }
  LoadTarget target(bool masters_only = false) const {
    return {.units = units_, .owned = owned_, .optimizer = kAdamW, .masters_only = masters_only};
  }

  void ForEach(const std::function<void(float&, float)>& visit, uint64_t version) {
    for (const OwnedStretch& stretch : owned_) {
      const std::string& name = units_[static_cast<size_t>(stretch.unit)]
                                    .parameters[static_cast<size_t>(stretch.parameter)]
                                    .name;
      for (size_t i = 0; i < stretch.master.size(); ++i) {
        const int64_t element = stretch.offset + static_cast<int64_t>(i);
        visit(stretch.master[i], ValueOf(name, 0, element, version));
        for (uint64_t s = 0; s < stretch.states.size() && !stretch.states[s].empty(); ++s) {
          visit(stretch.states[s][i], ValueOf(name, 1 + s, element, version));
        }
      }
    }
  }
  Owner& Fill(uint64_t version) {
    ForEach([](float& value, float expected) { value = expected; }, version);
    return *this;
  }
  bool Holds(uint64_t version) {
    bool equal = true;
    ForEach(
        [&](float& value, float expected) {
          equal = equal && std::bit_cast<uint32_t>(value) == std::bit_cast<uint32_t>(expected);
        },
        version);
    return equal;
  }

 private:
  void Add(size_t unit, size_t parameter, int64_t offset, size_t size) {
    memory_.push_back(std::vector<float>(3 * size));
    const std::span<float> all = memory_.back();
    owned_.push_back(
        {static_cast<int>(unit), static_cast<int>(parameter), offset, all.first(size)});
    if (units_[unit].trainable) {
      owned_.back().states = {all.subspan(size, size), all.last(size)};
    }
  }

  const std::vector<UnitSpec>& units_;
  std::vector<std::vector<float>> memory_;
  std::vector<OwnedStretch> owned_;
};

void OnRanks(int world, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world; ++rank) threads.emplace_back(body, rank);
}

// Saves version `step` over hosts x ranks_per_host threads; file_system(rank) is that rank's. What
// each rank threw, or "".
using FileSystemOf = std::function<io::FileSystem&(int)>;
std::vector<std::string> SaveOnRanks(const std::string& root, int64_t step, int hosts,
                                     int ranks_per_host, const FileSystemOf& file_system) {
  const int world = hosts * ranks_per_host;
  Agreement agreement(world);
  std::vector<std::string> errors(static_cast<size_t>(world));
  OnRanks(world, [&](int rank) {
    Owner owner(kUnits, rank, world);
    owner.Fill(static_cast<uint64_t>(step));
    try {
      SaveCheckpoint(AtomicDirectory(file_system(rank), root), {rank, world, agreement.hook()},
                     {.units = kUnits,
                      .owned = owner.owned(),
                      .optimizer = kAdamW,
                      .step = step,
                      .hosts = hosts,
                      .ranks_per_host = ranks_per_host,
                      .extra = {{"sample", step * 100}}});
    } catch (const IoError& error) {
      errors[static_cast<size_t>(rank)] = error.what();
    }
  });
  return errors;
}
io::FileSystem& Real(int) { return io::RealFileSystem(); }

// Whether the newest checkpoint loads with the values of its step on every rank of `world`.
int64_t LoadNewest(const std::string& root, int world) {
  const auto complete = AtomicDirectory(io::RealFileSystem(), root).Look().complete;
  if (complete.empty()) return -1;
  Agreement agreement(world);
  OnRanks(world, [&](int rank) {
    Owner owner(kUnits, rank, world);
    const Checkpoint loaded = LoadCheckpoint(io::RealFileSystem(), complete.front().path,
                                             owner.target(), agreement.hook());
    EXPECT_EQ(loaded.step(), complete.front().step);
    EXPECT_EQ(loaded.extra()["sample"], loaded.step() * 100);
    EXPECT_TRUE(owner.Holds(static_cast<uint64_t>(loaded.step()))) << "rank " << rank;
  });
  return complete.front().step;
}

struct World {
  int hosts, ranks;
};
const World kWorlds[] = {{1, 1}, {1, 4}, {2, 1}, {2, 2}, {3, 2}, {2, 3}, {4, 2}, {1, 13}};

TEST(Checkpoint, AnyWorldLoadsWhatAnyWorldSaved) {
  for (const World saved : kWorlds) {
    TestDirectory dir;
    for (const std::string& error : SaveOnRanks(dir.path(), 7, saved.hosts, saved.ranks, Real)) {
      ASSERT_EQ(error, "");
    }
    for (const World loading : kWorlds) {
      EXPECT_EQ(LoadNewest(dir.path(), loading.hosts * loading.ranks), 7);
    }
    const Checkpoint checkpoint(io::RealFileSystem(), dir / "step-7");
    EXPECT_EQ(checkpoint.hosts(), saved.hosts);
    EXPECT_EQ(checkpoint.ranks_per_host(), saved.ranks);
    checkpoint.Verify();
    for (const UnitSpec& unit : kUnits) {
      for (const ParameterSpec& spec : unit.parameters) {
        const std::vector<float> full = checkpoint.LoadFullParameter(spec.name);
        ASSERT_EQ(std::ssize(full), NumelOf(spec));
        for (size_t i = 0; i < full.size(); ++i) {
          const float expected = ValueOf(spec.name, 0, static_cast<int64_t>(i), 7);
          ASSERT_EQ(std::bit_cast<uint32_t>(full[i]), std::bit_cast<uint32_t>(expected));
        }
      }
    }
  }
}

TEST(Checkpoint, LongStretchesAreCutIntoPieces) {
  const std::vector<UnitSpec> units{{"u", {{"w", {kMaxPiece + 5}}}}};
  TestDirectory dir;
  const AtomicDirectory root(io::RealFileSystem(), dir.path());
  Owner owner(units, 0, 1);
  owner.Fill(1);
  SaveCheckpoint(root, {},
                 {.units = units, .owned = owner.owned(), .optimizer = kAdamW, .step = 1});
  const Checkpoint checkpoint(io::RealFileSystem(), dir / "step-1");
  ASSERT_EQ(checkpoint.pieces().size(), 2u);
  EXPECT_EQ(checkpoint.pieces()[1].offset, kMaxPiece);
  Owner back(units, 1, 3);
  checkpoint.Load(back.target());
  EXPECT_TRUE(back.Holds(1));
}

std::vector<UnitSpec> WithFrozenBlock() {
  std::vector<UnitSpec> units = kUnits;
  units[1].trainable = false;
  return units;
}

std::string SavedBy(const TestDirectory& dir, const std::vector<UnitSpec>& units,
                    const OptimizerIdentity& optimizer) {
  Owner owner(units, 0, 1);
  owner.Fill(1);
  SaveCheckpoint(AtomicDirectory(io::RealFileSystem(), dir.path()), {},
                 {.units = units, .owned = owner.owned(), .optimizer = optimizer, .step = 1});
  return dir / "step-1";
}

TEST(Checkpoint, FrozenParametersHaveTheirWeightsOnly) {
  const std::vector<UnitSpec> frozen = WithFrozenBlock();
  TestDirectory dir;
  const Checkpoint checkpoint(io::RealFileSystem(), SavedBy(dir, frozen, kAdamW));
  for (const Checkpoint::Piece& piece : checkpoint.pieces()) {
    const bool block = checkpoint.parameters()[piece.parameter].name.starts_with("block");
    EXPECT_EQ(piece.kinds, block ? 1u : 3u);
  }
  Owner back(frozen, 1, 2);
  checkpoint.Load(back.target());
  EXPECT_TRUE(back.Holds(1));
  // What was frozen has no moments to go on with.
  Owner trained(kUnits, 0, 1);
  EXPECT_CONTAINS(MessageOf<UsageError>([&] { checkpoint.Load(trained.target()); }),
                  "block.0.wq is trained and was frozen when saved: freeze it again, or load the "
                  "weights alone");
  checkpoint.Load(trained.target(true));
  // The other way round the moments are not wanted.
  TestDirectory other;
  const Checkpoint all(io::RealFileSystem(), SavedBy(other, kUnits, kAdamW));
  Owner frozen_now(frozen, 0, 1);
  all.Load(frozen_now.target());
  EXPECT_TRUE(frozen_now.Holds(1));
}

TEST(Checkpoint, AnotherOptimizersStateIsRefusedButNotItsWeights) {
  const OptimizerIdentity lamb{"LAMB", {"m", "v"}};
  TestDirectory dir;
  const Checkpoint checkpoint(io::RealFileSystem(), SavedBy(dir, kUnits, lamb));
  EXPECT_EQ(checkpoint.optimizer(), lamb);
  Owner owner(kUnits, 0, 2);
  owner.Fill(5);
  EXPECT_CONTAINS(MessageOf<UsageError>([&] { checkpoint.Load(owner.target()); }),
                  "saved with LAMB (m, v), this run has AdamW (m, v): take the optimizer that was "
                  "saved, or load the weights alone");
  EXPECT_TRUE(owner.Holds(5));
  checkpoint.Load(owner.target(true));
  for (const OwnedStretch& stretch : owner.owned()) {
    for (const float moment : stretch.states[0]) ASSERT_EQ(moment, 0);
    for (const float moment : stretch.states[1]) ASSERT_EQ(moment, 0);
  }
  EXPECT_FALSE(owner.Holds(1));
  Owner all(kUnits, 0, 2);
  all.Fill(1);
  for (size_t i = 0; i < all.owned().size(); ++i) {
    const auto bytes = [](std::span<const float> values) {
      const auto raw = std::as_bytes(values);
      return std::vector<std::byte>(raw.begin(), raw.end());
    };
    EXPECT_EQ(bytes(owner.owned()[i].master), bytes(all.owned()[i].master));
  }
}

// One operation of one rank fails, for every operation. Every rank reports it, and the newest
// checkpoint is the one of before or the new one as a whole.
void FailOnRank(int faulty_rank, io::Fault fault) {
  constexpr int kWorld = 4;
  TestDirectory dir;
  SaveOnRanks(dir.path(), 1, 2, 2, Real);
  bool fired = true;
  for (fault.nth = 0; fired; ++fault.nth) {
    io::FaultFileSystem faulty(io::RealFileSystem(), fault);
    const auto errors = SaveOnRanks(dir.path(), 2, 2, 2, [&](int rank) -> io::FileSystem& {
      return rank == faulty_rank ? static_cast<io::FileSystem&>(faulty) : Real(rank);
    });
    const auto failed = std::count_if(errors.begin(), errors.end(),
                                      [](const std::string& error) { return !error.empty(); });
    EXPECT_TRUE(failed == 0 || failed == kWorld) << failed << " of 4 at " << fault.nth;
    const int64_t newest = LoadNewest(dir.path(), 3);
    EXPECT_TRUE(newest == 2 || (newest == 1 && failed == kWorld)) << newest << " at " << fault.nth;
    if (failed == kWorld && newest == 1 && !(fault.forever && faulty_rank == 0)) {
      EXPECT_EQ(io::ListDirectory(io::RealFileSystem(), dir.path()).size(), 1u) << fault.nth;
    }
    io::RemoveTree(io::RealFileSystem(), dir / "step-2");
    fired = faulty.fired();
    ASSERT_LT(fault.nth, 1000);
  }
  EXPECT_GT(fault.nth, 8);
}

TEST(Checkpoint, AnyOperationOfRank0MayFail) { FailOnRank(0, {}); }
TEST(Checkpoint, AnyOperationOfRank0MayBeTheLast) { FailOnRank(0, {.forever = true}); }
TEST(Checkpoint, AnyOperationOfRank2MayFail) { FailOnRank(2, {}); }
TEST(Checkpoint, AnyOperationOfRank2MayBeTheLast) { FailOnRank(2, {.forever = true}); }

TEST(Checkpoint, FullDiskOnOneRankIsAFailureOnAll) {
  TestDirectory dir;
  SaveOnRanks(dir.path(), 1, 2, 2, Real);
  io::FaultFileSystem full(io::RealFileSystem(),
                           {.op = io::FileOp::kWrite, .error = ENOSPC, .forever = true});
  const auto errors = SaveOnRanks(dir.path(), 2, 2, 2, [&](int rank) -> io::FileSystem& {
    return rank == 3 ? static_cast<io::FileSystem&>(full) : Real(rank);
  });
  EXPECT_CONTAINS(errors[3], "step-2.tmp/rank-00003.safetensors: cannot write");
  EXPECT_CONTAINS(errors[3], "No space left on device (");
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_CONTAINS(errors[rank], "step-2 failed on another rank; its message says why");
  }
  EXPECT_EQ(io::ListDirectory(io::RealFileSystem(), dir.path()),
            std::vector<std::string>{"step-1"});
  EXPECT_EQ(LoadNewest(dir.path(), 4), 1);
}

TEST(Checkpoint, SeparateFileSystemsAreNoticedAtTheFirstSave) {
  TestDirectory here, there;
  Agreement agreement(2);
  std::vector<std::string> errors(2);
  OnRanks(2, [&](int rank) {
    Owner owner(kUnits, rank, 2);
    const AtomicDirectory root(io::RealFileSystem(), rank == 0 ? here.path() : there.path());
    errors[static_cast<size_t>(rank)] = MessageOf<IoError>([&] {
      SaveCheckpoint(root, {rank, 2, agreement.hook()},
                     {.units = kUnits, .owned = owner.owned(), .optimizer = kAdamW, .hosts = 2});
    });
  });
  EXPECT_CONTAINS(errors[1], "on a file system that all hosts share?");
  EXPECT_CONTAINS(errors[0], "another rank");
}

class Damaged : public testing::Test {
 protected:
  void SetUp() override { SaveOnRanks(dir_.path(), 3, 1, 2, Real); }

  std::string LoadError(const std::vector<UnitSpec>& units = kUnits) {
    Owner owner(units, 0, 1);
    return MessageOf<UsageError>(
        [&] { Checkpoint(io::RealFileSystem(), path_).Load(owner.target()); });
  }
  void EditManifest(const std::function<void(Json&)>& edit) {
    Json manifest = io::ReadManifest(io::RealFileSystem(), path_);
    edit(manifest);
    std::ofstream(path_ + "/manifest.json") << manifest;
  }
  void FlipByte(const std::string& name, int64_t from_end) {
    std::fstream file(path_ + "/" + name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-from_end, std::ios::end);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(-from_end, std::ios::end);
    file.put(byte);
  }

  TestDirectory dir_;
  const std::string path_ = dir_ / "step-3";
};

TEST_F(Damaged, OtherModelsAreRefusedByName) {
  EXPECT_EQ(LoadError(), "no error");
  std::vector<UnitSpec> units = kUnits;
  units[1].parameters[0].shape = {5, 6};
  EXPECT_CONTAINS(LoadError(units),
                  "block.0.wq: the model wants shape [5,6], the checkpoint has [5,3,2]");
  units[1].parameters[0].name = "wk";
  EXPECT_CONTAINS(LoadError(units), "wk: the model wants shape [5,6], the checkpoint has no such");
  units = kUnits;
  units.pop_back();
  EXPECT_CONTAINS(LoadError(units), "6 parameters saved, the model has 4");
  const Checkpoint checkpoint(io::RealFileSystem(), path_);
  EXPECT_CONTAINS(MessageOf<UsageError>([&] { checkpoint.LoadFullParameter("wk"); }),
                  "no parameter wk");
}

TEST_F(Damaged, FlippedDataIsNoticed) {
  FlipByte("rank-00001.safetensors", 1);
  EXPECT_CONTAINS(LoadError(), "rank-00001.safetensors: tensor \"");
  EXPECT_CONTAINS(LoadError(), "the file is damaged");
  const Checkpoint checkpoint(io::RealFileSystem(), path_);
  EXPECT_CONTAINS(MessageOf<UsageError>([&] { checkpoint.Verify(); }),
                  "rank-00001.safetensors: checksum");
}

TEST_F(Damaged, MissingFileAsksForASharedFileSystem) {
  std::filesystem::remove(path_ + "/rank-00001.safetensors");
  EXPECT_CONTAINS(LoadError(), "rank-00001.safetensors: listed in the manifest, but not there; is");
  std::filesystem::remove(path_ + "/manifest.json");
  EXPECT_CONTAINS(LoadError(), "no manifest.json, so it is not a complete checkpoint");
}

TEST_F(Damaged, SwappedFilesAreNoticed) {
  std::filesystem::rename(path_ + "/rank-00001.safetensors", path_ + "/x");
  std::filesystem::rename(path_ + "/rank-00000.safetensors", path_ + "/rank-00001.safetensors");
  std::filesystem::rename(path_ + "/x", path_ + "/rank-00000.safetensors");
  EXPECT_CONTAINS(LoadError(), "F32 expected, found");
}

TEST_F(Damaged, ManifestsThatContradictThemselvesAreRefused) {
  struct Case {
    std::function<void(Json&)> edit;
    const char* message;
  };
  const Case cases[] = {
      {[](Json& m) { m["format"] = "x"; }, "not a thinwire-checkpoint"},
      {[](Json& m) { m["version"] = 3; }, "format version 3, this thinwire reads 1 to 2"},
      {[](Json& m) { m["version"] = 0; }, "format version 0, this thinwire reads 1 to 2"},
      {[](Json& m) { m.erase("optimizer"); }, "\"states\" must be a list"},
      {[](Json& m) { m["optimizer"]["name"] = 1; }, "must have a name and at most 3 states"},
      {[](Json& m) {
         m["optimizer"]["states"] = {"a", "b", "c", "d"};
       },
       "must have a name and at most 3 states"},
      {[](Json& m) { m["optimizer"]["states"][0] = "master"; }, "\"master\" is no name of a state"},
      {[](Json& m) { m["hosts"] = 0; }, "\"hosts\" = 0 is out of range"},
      {[](Json& m) { m.erase("parameters"); }, "\"parameters\" must be a list"},
      {[](Json& m) { m["parameters"][0]["shape"] = {-1}; }, "shape must be integers"},
      {[](Json& m) {
         m["parameters"][0]["shape"] = {INT64_MAX, 2};
       },
       "does not fit 64 bits"},
      {[](Json& m) { m["parameters"][1]["name"] = "embed.weight"; }, "named twice"},
      {[](Json& m) { m["pieces"][0]["parameter"] = 6; }, "a piece of parameter 6 in file 0"},
      {[](Json& m) { m["pieces"][0]["file"] = 2; }, "in file 2, but there are 6 and 2"},
      {[](Json& m) { m["pieces"][0]["elements"] = 0; }, "a piece of 0 elements"},
      {[](Json& m) { m["pieces"][0]["elements"] = INT64_MAX; }, "elements, 1 to"},
      {[](Json& m) { m["pieces"][0]["offset"] = INT64_MAX; }, "do not cover"},
      {[](Json& m) { m["pieces"].erase(0); }, "do not cover"},
      {[](Json& m) { m["pieces"].erase(m["pieces"].size() - 1); }, "do not cover"},
      {[](Json& m) { m["pieces"].push_back(m["pieces"][0]); }, "do not cover"},
      {[](Json& m) { m["pieces"][0].erase("crc32c"); }, "\"crc32c\" must be a list"},
      {[](Json& m) {
         m["pieces"][0]["crc32c"] = {1, 2};
       },
       "must be 1 or 3 integers"},
      {[](Json& m) { m["pieces"][0]["crc32c"][1] = "x"; }, "crc32c of a piece must be integers"},
      {[](Json& m) { m["pieces"][0] = 1; }, "must be an integer"},
  };
  const Json good = io::ReadManifest(io::RealFileSystem(), path_);
  for (const Case& test : cases) {
    EditManifest([&](Json& manifest) {
      manifest = good;
      test.edit(manifest);
    });
    EXPECT_CONTAINS(LoadError(), test.message);
  }
}

// As it was written before there were other optimizers.
TEST_F(Damaged, Version1IsAdamW) {
  EditManifest([](Json& manifest) {
    manifest["version"] = 1;
    manifest.erase("optimizer");
  });
  EXPECT_EQ(LoadError(), "no error");
  const Checkpoint checkpoint(io::RealFileSystem(), path_);
  EXPECT_EQ(checkpoint.optimizer(), kAdamW);
}

TEST_F(Damaged, OneRanksFailureToLoadIsEveryRanks) {
  Agreement agreement(2);
  std::vector<std::string> errors(2);
  OnRanks(2, [&](int rank) {
    Owner owner(kUnits, rank, 2);
    io::FaultFileSystem bad(io::RealFileSystem(), {.op = io::FileOp::kRead});
    io::FileSystem& fs = rank == 1 ? static_cast<io::FileSystem&>(bad) : Real(rank);
    errors[static_cast<size_t>(rank)] =
        MessageOf<IoError>([&] { LoadCheckpoint(fs, path_, owner.target(), agreement.hook()); });
  });
  EXPECT_CONTAINS(errors[1], "manifest.json: cannot read");
  EXPECT_CONTAINS(errors[0], "step-3 failed on another rank");
}

}  // namespace
}  // namespace thinwire::zero
