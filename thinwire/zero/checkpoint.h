// Saving and loading what the ranks own: fp32 master weights and AdamW's moments.
//
// A checkpoint is an io::AtomicDirectory. Rank r writes rank-0000r.safetensors with its stretches,
// cut into pieces of at most kMaxPiece elements; a piece is three one-dimensional F32 tensors,
//     <parameter>/master@<offset>   <parameter>/m@<offset>   <parameter>/v@<offset>
// where offset counts elements of the flattened parameter. manifest.json holds
//     format, version        "thinwire-checkpoint", 1
//     step, hosts, ranks_per_host, world
//     files                  [{name, bytes, crc32c}], crc32c of the whole file
//     parameters             [{name, shape}]
//     pieces                 [{parameter, offset, elements, file, crc32c: [master, m, v]}],
//                            parameter and file as indices; together they cover every parameter
//                            once
//     extra                  whatever the trainer wants back
// Loading does not depend on how many ranks saved: each rank reads the pieces it needs and checks
// their sums.
#pragma once

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

struct CheckpointContent {
  const std::vector<UnitSpec>& units;
  std::span<const OwnedStretch> owned;  // of this rank
  int64_t step = 0;
  int hosts = 1;
  int ranks_per_host = 1;
  int keep = 2;  // complete checkpoints that stay, this one included
  nlohmann::json extra = nlohmann::json::object();  // rank 0's counts
};

// Called by every rank; see AtomicDirectory::Save for failures, `warning` and the result.
std::string SaveCheckpoint(const io::AtomicDirectory& root, const io::Saver& saver,
                           const CheckpointContent& content, std::string* warning = nullptr);

class Checkpoint {
 public:
  // Reads and checks the manifest only. Throws UsageError when it is of another format or version
  // or contradicts itself.
  Checkpoint(io::FileSystem& fs, std::string directory);

  struct Piece {
    size_t parameter = 0;  // in parameters()
    int64_t offset = 0;
    int64_t elements = 0;
    size_t file = 0;          // in files()
    uint32_t crc32c[3] = {};  // master, m, v

    int64_t end() const { return offset + elements; }
  };

  const std::string& directory() const { return directory_; }
  int64_t step() const { return step_; }
  int hosts() const { return hosts_; }
  int ranks_per_host() const { return ranks_per_host_; }
  const std::vector<io::FileRecord>& files() const { return files_; }
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  const std::vector<Piece>& pieces() const { return pieces_; }  // by parameter and offset
  const nlohmann::json& extra() const { return extra_; }

  // Fills the stretches. Throws UsageError unless `units` have the names and shapes saved, and when
  // a file is missing or a sum does not match.
  void Load(const std::vector<UnitSpec>& units, std::span<const OwnedStretch> owned) const;

  // The whole fp32 master of one parameter.
  std::vector<float> LoadFullParameter(const std::string& name) const;

  // Reads every file against its checksum. Throws UsageError naming the first that differs.
  void Verify() const;

 private:
  class Files;  // those opened so far

  void ReadParameters(const nlohmann::json& manifest);
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
  std::vector<ParameterSpec> parameters_;
  std::map<std::string, size_t> index_;
  std::vector<Piece> pieces_;
  nlohmann::json extra_;
};

// Opens and loads on every rank, or throws on every rank.
Checkpoint LoadCheckpoint(io::FileSystem& fs, const std::string& directory,
                          const std::vector<UnitSpec>& units, std::span<const OwnedStretch> owned,
                          const io::AllAgree& all_agree);

}  // namespace thinwire::zero
