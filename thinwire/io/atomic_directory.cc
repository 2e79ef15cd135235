#include "thinwire/io/atomic_directory.h"

#include <algorithm>
#include <cerrno>
#include <iomanip>
#include <optional>

#include "thinwire/base/error.h"

namespace thinwire::io {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kTemporary = ".tmp";
constexpr std::string_view kOld = ".old";

// The N of "step-N<suffix>"; nothing for any other name.
std::optional<int64_t> StepOf(std::string_view name, std::string_view suffix) {
  if (!name.starts_with(kPrefix) || !name.ends_with(suffix)) return {};
  name.remove_prefix(kPrefix.size());
  if (name.size() <= suffix.size()) return {};
  name.remove_suffix(suffix.size());
  const bool digits =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || name.size() > 18 || (name.size() > 1 && name.front() == '0')) return {};
  return std::stoll(std::string(name));
}

std::string RecordOf(int rank) {
  return StrCat("rank-", std::setfill('0'), std::setw(5), rank, ".json");
}

// Why `directory` is not a complete checkpoint of `step`; empty when it is.
std::string WhyIncomplete(FileSystem& fs, const std::string& directory, int64_t step) {
  try {
    const Json manifest = ReadManifest(fs, directory);
    const int64_t found = manifest["step"].get<int64_t>();
    if (found != step) return StrCat(directory, ": its manifest is of step ", found);
    for (const FileRecord& record : FilesOf(manifest, directory)) {
      const std::string path = directory + "/" + record.name;
      const int file = fs.Open(path, OpenMode::kRead);
      if (file == -ENOENT) return StrCat(path, ": is missing");
      if (file >= 0) fs.Close(file);
      const int64_t size = File(fs, path, OpenMode::kRead).Size();
      if (size != record.bytes) {
        return StrCat(path, ": ", record.bytes, " bytes expected, found ", size);
      }
    }
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

std::string AtomicDirectory::PathOf(int64_t step) const {
  return StrCat(root_, "/", kPrefix, step);
}

AtomicDirectory::Survey AtomicDirectory::Look() const {
  Survey survey;
  const auto add = [&](int64_t step, const std::string& path) {
    const std::string reason = WhyIncomplete(fs_, path, step);
    if (reason.empty()) {
      survey.complete.push_back({step, path});
    } else {
      survey.ignored.push_back(reason);
    }
  };
  const std::vector<std::string> names = ListDirectory(fs_, root_);
  for (const std::string& name : names) {
    if (const auto step = StepOf(name, "")) add(*step, root_ + "/" + name);
  }
  for (const std::string& name : names) {
    const auto step = StepOf(name, kOld);
    const auto has_step = [&](const Complete& found) { return found.step == *step; };
    if (step && std::none_of(survey.complete.begin(), survey.complete.end(), has_step)) {
      add(*step, root_ + "/" + name);
    }
  }
  std::sort(survey.complete.begin(), survey.complete.end(),
            [](const Complete& a, const Complete& b) { return a.step > b.step; });
  return survey;
}

std::string AtomicDirectory::Save(const Saver& saver, const Content& content,
                                  std::string* warning) const {
  THINWIRE_CHECK(content.step >= 0 && content.keep >= 1, content.step, " ", content.keep);
  const std::string path = PathOf(content.step);
  const bool first = saver.rank == 0;
  try {
    Together(saver.all_agree, "saving " + path, [&] {
      if (first) Prepare(content);
    });
    Together(saver.all_agree, "saving " + path, [&] { WriteShare(saver, content); });
    Together(saver.all_agree, "saving " + path, [&] {
      if (first) Publish(saver, content);
    });
  } catch (const PeerError&) {
    throw;  // others may still be writing; the next save removes the leftovers
  } catch (...) {
    if (first) {
      try {
        RemoveTree(fs_, TemporaryOf(content.step));
      } catch (const IoError&) {  // the error to report is the first one
      }
    }
    throw;
  }
  if (first) {
    try {
      Prune(content);
    } catch (const IoError& error) {  // this checkpoint is safe all the same
      if (warning != nullptr) *warning = error.what();
    }
  }
  return path;
}

void AtomicDirectory::Prepare(const Content& content) const {
  MakeDirectories(fs_, root_);
  for (const std::string& name : ListDirectory(fs_, root_)) {
    if (StepOf(name, kTemporary)) RemoveTree(fs_, root_ + "/" + name);
  }
  RequireFreeBytes(fs_, root_, content.bytes);
  MakeDirectories(fs_, TemporaryOf(content.step));
}

void AtomicDirectory::WriteShare(const Saver& saver, const Content& content) const {
  const std::string directory = TemporaryOf(content.step);
  if (!IsDirectory(fs_, directory)) {
    throw IoError(StrCat(directory, ": rank 0 made it, rank ", saver.rank, " does not see it; is ",
                         root_, " on a file system that all hosts share?"));
  }
  const Share share = content.write(directory);
  Json record{{"files", Json::array()}, {"notes", share.notes}};
  for (const FileRecord& file : share.files) {
    record["files"].push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"crc32c", file.crc32c}});
  }
  WriteFileAtomically(fs_, directory + "/" + RecordOf(saver.rank), record.dump());
}

void AtomicDirectory::Publish(const Saver& saver, const Content& content) const {
  const std::string directory = TemporaryOf(content.step);
  const std::vector<std::string> present = ListDirectory(fs_, directory);
  std::vector<Json> notes;
  Json files = Json::array();
  for (int rank = 0; rank < saver.world; ++rank) {
    const std::string name = RecordOf(rank);
    if (!std::binary_search(present.begin(), present.end(), name)) {
      throw IoError(StrCat(directory, "/", name, ": rank ", rank,
                           " wrote it, rank 0 does not see it; is ", root_,
                           " on a file system that all hosts share?"));
    }
    Json record = Json::parse(ReadFile(fs_, directory + "/" + name, kMaxManifestBytes));
    files.insert(files.end(), record["files"].begin(), record["files"].end());
    notes.push_back(std::move(record["notes"]));
  }
  Json manifest = content.manifest(notes);
  manifest["step"] = content.step;
  manifest["files"] = std::move(files);
  for (int rank = 0; rank < saver.world; ++rank) RemoveTree(fs_, directory + "/" + RecordOf(rank));
  WriteFileAtomically(fs_, directory + "/" + kManifest, manifest.dump());
  const std::string problem = WhyIncomplete(fs_, directory, content.step);
  if (!problem.empty()) throw IoError(problem);

  const std::string path = PathOf(content.step);
  if (IsDirectory(fs_, path)) {
    if (WhyIncomplete(fs_, path, content.step).empty()) {
      RemoveTree(fs_, path + std::string(kOld));
      Rename(fs_, path, path + std::string(kOld));
    } else {
      RemoveTree(fs_, path);
    }
  }
  Rename(fs_, directory, path);
  SyncDirectory(fs_, root_);
}

void AtomicDirectory::Prune(const Content& content) const {
  for (const std::string& name : ListDirectory(fs_, root_)) {
    const auto step = StepOf(name, kOld);
    if (step && WhyIncomplete(fs_, PathOf(*step), *step).empty())
      RemoveTree(fs_, root_ + "/" + name);
  }
  // The new one stays even where a run that went back to an earlier step finds higher ones.
  int kept = 1;
  for (const Complete& found : Look().complete) {
    if (found.step == content.step || ++kept <= content.keep) continue;
    // Renamed first: half-removed it must not look like a checkpoint that was damaged.
    Rename(fs_, found.path, TemporaryOf(found.step));
    RemoveTree(fs_, TemporaryOf(found.step));
  }
}

}  // namespace thinwire::io
