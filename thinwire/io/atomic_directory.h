// Checkpoints that several ranks write together, as directories that are complete or not there:
//
//   root/step-120/       complete: manifest.json was written last, names every file and its size
//   root/step-120.tmp/   being written, or left by a crash: never loaded, removed by the next save
//   root/step-120.old/   a complete step-120 while a new step-120 takes its place
//
// One save: rank 0 makes step-N.tmp; every rank writes and syncs its files there, then a record of
// them; rank 0 gathers the records into the manifest, renames the directory and syncs `root`. After
// each of these all ranks agree that it worked. A crash or an error at any point leaves the
// checkpoints of before as they were. One run at a time may save into a root.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "thinwire/io/file.h"
#include "thinwire/io/together.h"

namespace thinwire::io {

struct Saver {
  int rank = 0;
  int world = 1;
  AllAgree all_agree = [](bool ok) { return ok; };
};

struct FileRecord {
  std::string name;  // inside the directory
  int64_t bytes = 0;
  uint32_t crc32c = 0;
};

class AtomicDirectory {
 public:
  static constexpr const char* kManifest = "manifest.json";
  static constexpr int64_t kMaxManifestBytes = int64_t{1} << 30;

  AtomicDirectory(FileSystem& fs, std::string root) : fs_(fs), root_(std::move(root)) {}

  struct Complete {
    int64_t step = 0;
    std::string path;
  };
  struct Survey {
    std::vector<Complete> complete;    // newest (highest step) first
    std::vector<std::string> ignored;  // what else looks like a step, one line each with the reason
  };
  // A root that does not exist holds nothing. Throws IoError when a manifest cannot be read.
  Survey Look() const;

  // What one rank saved: its files, and whatever Manifest wants to know about them.
  struct Share {
    std::vector<FileRecord> files;
    nlohmann::json notes;
  };
  struct Content {
    int64_t step = 0;
    int64_t bytes = 0;  // of all ranks together; so much must be free
    int keep = 2;       // complete checkpoints that stay, this one included; >= 1
    // Writes and syncs this rank's files in `directory`.
    std::function<Share(const std::string& directory)> write;
    // Rank 0: the manifest, an object, from the notes of every rank. "step" and "files" are added.
    std::function<nlohmann::json(const std::vector<nlohmann::json>& notes)> manifest;
  };
  // Called by every rank with the same step, bytes and keep. Throws on all ranks when it failed on
  // one: there the error itself. Returns the path; `warning` says what could not be tidied up.
  std::string Save(const Saver& saver, const Content& content,
                   std::string* warning = nullptr) const;

  std::string PathOf(int64_t step) const;
  FileSystem& file_system() const { return fs_; }

 private:
  void Prepare(const Content& content) const;
  void WriteShare(const Saver& saver, const Content& content) const;
  void Publish(const Saver& saver, const Content& content) const;
  void Prune(const Content& content) const;
  std::string TemporaryOf(int64_t step) const { return PathOf(step) + ".tmp"; }

  FileSystem& fs_;
  const std::string root_;
};

// The manifest of a directory. Throws UsageError when it is not there, is no JSON object, or "step"
// or "files" are not as Save writes them.
nlohmann::json ReadManifest(FileSystem& fs, const std::string& directory);

// Its "files". Names are plain: no '/', no "..". Throws UsageError.
std::vector<FileRecord> FilesOf(const nlohmann::json& manifest, const std::string& directory);

// The member `key` of `object`, an integer >= 0. Throws UsageError beginning with `what`.
int64_t IntegerIn(const nlohmann::json& object, const char* key, const std::string& what);

}  // namespace thinwire::io
