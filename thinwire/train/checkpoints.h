// The checkpoints of a run: where they lie, what stands in them beside the weights, and which one a
// run goes on from.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "thinwire/io/atomic_directory.h"
#include "thinwire/train/config.h"
#include "thinwire/zero/engine.h"

namespace thinwire::train {

// What decides which samples a step sees, beside the config.
struct DataIdentity {
  uint64_t fingerprint = 0;  // of the tokens
  int64_t samples_per_step = 0;
};

class Checkpoints {
 public:
  // Of all ranks of `engine`, in config.output.directory, which they share.
  Checkpoints(const Config& config, zero::Engine& engine, DataIdentity data);

  // Collective. Throws UsageError when the directory holds checkpoints: a new run would delete them
  // one by one, and a later --resume might take one of theirs.
  void RequireNone();

  // Collective. Returns the path; `warning` says what could not be tidied up.
  std::string Save(int64_t step, std::string& warning);

  // Collective. Loads the newest complete checkpoint and returns its step; nothing when there is
  // none. `note` says what changed since it was saved: settings, data, samples per step. Throws
  // UsageError when the model is another one or the ranks do not see the same checkpoints.
  std::optional<int64_t> Resume(std::string& note);

 private:
  bool AllAgree(bool ok);
  // The step of the newest complete checkpoint, the same on all ranks; -1 when there is none.
  int64_t Newest(io::AtomicDirectory::Survey& survey);

  const Config& config_;
  zero::Engine& engine_;
  DataIdentity data_;
  io::AtomicDirectory root_;
};

// The complete checkpoint that `path` is or the newest that it holds. Throws UsageError.
std::string NewestCheckpoint(const std::string& path);

// The config of the run that saved a checkpoint with this `extra`; `source` names it in errors.
Config ConfigOf(const nlohmann::json& extra, const std::string& source);

}  // namespace thinwire::train
