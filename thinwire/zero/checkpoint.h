// Saving and loading what the ranks own: fp32 master weights and the optimizer's state.
//
// A checkpoint is an io::AtomicDirectory. Rank r writes rank-0000r.safetensors with its stretches,
// cut into pieces of at most kMaxPiece elements; a piece is one-dimensional F32 tensors,
//     <parameter>/master@<offset>   and for each state   <parameter>/<state>@<offset>
// where offset counts elements of the flattened parameter; a frozen one has no states.
// manifest.json holds
//     format, version        "thinwire-checkpoint", 2
//     step, hosts, ranks_per_host, world
//     files                  [{name, bytes, crc32c}], crc32c of the whole file
//     optimizer              {name, states: [names]}
//     parameters             [{name, shape}]
//     pieces                 [{parameter, offset, elements, file, crc32c: [master, states...]}],
//                            parameter and file as indices; together they cover every parameter
//                            once
//     extra                  whatever the trainer wants back
// A rank's file may also hold what its slow reduce owes: see checkpoint_debts.h.
// Loading does not depend on how many ranks saved: each rank reads the pieces it needs and checks
// their sums. Version 1 had no optimizer: it was AdamW with the states m and v.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "thinwire/io/atomic_directory.h"
#include "thinwire/zero/engine.h"
#include "thinwire/zero/unit.h"

namespace thinwire::zero {

// 16 MiB a tensor: bounds what is read to get at a part of it, and the memory for that.
constexpr int64_t kMaxPiece = int64_t{4} << 20;

// Whose state the stretches hold, and what OwnedStretch::states are called.
struct OptimizerIdentity {
  std::string name;
  std::vector<std::string> states;

  bool operator==(const OptimizerIdentity&) const = default;
};
OptimizerIdentity IdentityOf(const optim::Optimizer& optimizer);

struct CheckpointContent {
  const std::vector<UnitSpec>& units;
  std::span<const OwnedStretch> owned;  // of this rank
  OptimizerIdentity optimizer;
  int64_t step = 0;
  int hosts = 1;
  int ranks_per_host = 1;
  int keep = 2;  // complete checkpoints that stay, this one included
  nlohmann::json extra = nlohmann::json::object();  // rank 0's counts
  Debts debts{};                                    // of this rank; see checkpoint_debts.h
};

// Called by every rank; see AtomicDirectory::Save for failures, `warning` and the result.
std::string SaveCheckpoint(const io::AtomicDirectory& root, const io::Saver& saver,
                           const CheckpointContent& content, std::string* warning = nullptr);

struct LoadTarget {
  const std::vector<UnitSpec>& units;
  std::span<const OwnedStretch> owned;  // is filled
  OptimizerIdentity optimizer;
  bool masters_only = false;  // the states are set to zero, whatever was saved
  // Parameters that were not saved keep their masters, and their states are set to zero; those that
  // the model has not are left.
  bool partial = false;
};

class Checkpoint {
 public:
  // Reads and checks the manifest only. Throws UsageError when it is of another format or version
  // or contradicts itself.
  Checkpoint(io::FileSystem& fs, std::string directory);

  struct Piece {
    size_t parameter = 0;  // in parameters()
    int64_t offset = 0;
    int64_t elements = 0;
    size_t file = 0;   // in files()
    size_t kinds = 1;  // tensors: the master and the states
    std::array<uint32_t, 1 + optim::kMostStates> crc32c{};

    int64_t end() const { return offset + elements; }
  };

  const std::string& directory() const { return directory_; }
  int64_t step() const { return step_; }
  int hosts() const { return hosts_; }
  int ranks_per_host() const { return ranks_per_host_; }
  const std::vector<io::FileRecord>& files() const { return files_; }
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  const std::vector<Piece>& pieces() const { return pieces_; }  // by parameter and offset
  const OptimizerIdentity& optimizer() const { return optimizer_; }
  const nlohmann::json& extra() const { return extra_; }

  // Fills the stretches. Throws UsageError unless the units have the names (see `partial`) and
  // shapes saved, unless
  // the optimizer is the one saved or only masters are wanted, and when a file is missing or a sum
  // does not match. What was trained when saved may be frozen now.
  void Load(const LoadTarget& target) const;

  // The whole fp32 master of one parameter.
  std::vector<float> LoadFullParameter(const std::string& name) const;

  // Reads every file against its checksum. Throws UsageError naming the first that differs.
  void Verify() const;

 private:
  class Files;  // those opened so far

  void ReadOptimizer(const nlohmann::json& manifest);
  void ReadParameters(const nlohmann::json& manifest);
  void CheckModel(const LoadTarget& target) const;
  const char* KindName(size_t kind) const;  // 0 is the master
  void ReadPieces(const nlohmann::json& manifest);
  // The pieces that intersect [begin, end) of a parameter.
  std::span<const Piece> Intersecting(size_t parameter, int64_t begin, int64_t end) const;
  size_t IndexOf(const std::string& name) const;  // parameters_.size() when there is none
  std::string Label() const { return directory_ + "/manifest.json"; }

  io::FileSystem& fs_;
  const std::string directory_;
  int64_t step_ = 0;
  int hosts_ = 0;
  int ranks_per_host_ = 0;
  std::vector<io::FileRecord> files_;
  OptimizerIdentity optimizer_;
  std::vector<ParameterSpec> parameters_;
  std::map<std::string, size_t> index_;
  std::vector<Piece> pieces_;
  nlohmann::json extra_;
};

// Opens and loads on every rank, or throws on every rank.
Checkpoint LoadCheckpoint(io::FileSystem& fs, const std::string& directory,
                          const LoadTarget& target, const io::AllAgree& all_agree);

}  // namespace thinwire::zero
