#include "thinwire/train/data.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <memory>

#include "thinwire/base/checked.h"
#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/io/file.h"

namespace thinwire::train {
namespace {

namespace fs = std::filesystem;

bool LooksLikeText(const std::string& path) {
  const io::File file(io::RealFileSystem(), path, io::OpenMode::kRead);
  std::string head(static_cast<size_t>(std::min<int64_t>(file.Size(), 4096)), ' ');
  file.ReadAt(0, std::as_writable_bytes(std::span(head)));
  return head.find('\0') == std::string::npos;
}

void AddDirectory(const fs::path& directory, std::vector<std::string>& files) {
  for (fs::recursive_directory_iterator it(directory), end; it != end; ++it) {
    const bool hidden = it->path().filename().string().starts_with('.');
    if (hidden && it->is_directory()) it.disable_recursion_pending();
    if (hidden || !it->is_regular_file()) continue;
    if (LooksLikeText(it->path().string())) files.push_back(it->path().string());
  }
}

std::vector<std::string> Glob(const std::string& pattern) {
  glob_t found{};
  const int result = glob(pattern.c_str(), GLOB_BRACE | GLOB_TILDE, nullptr, &found);
  const std::unique_ptr<glob_t, decltype(&globfree)> owner(&found, globfree);
  std::vector<std::string> paths;
  if (result == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  return paths;
}

void AddPattern(const std::string& pattern, std::vector<std::string>& files) {
  std::vector<std::string> paths = {pattern};
  if (!fs::exists(pattern)) paths = Glob(pattern);
  if (paths.empty()) {
    throw UsageError(StrCat("data.files: ", pattern, " does not exist; name files, directories or ",
                            "globs that do"));
  }
  const size_t before = files.size();
  for (const std::string& path : paths) {
    if (fs::is_directory(path)) {
      AddDirectory(path, files);
    } else {
      files.push_back(path);
    }
  }
  if (files.size() == before) {
    throw UsageError(StrCat("data.files: ", pattern, " has no text files below it"));
  }
}

}  // namespace

std::vector<std::string> FindFiles(std::span<const std::string> patterns) {
  std::vector<std::string> files;
  try {
    for (const std::string& pattern : patterns) AddPattern(pattern, files);
  } catch (const fs::filesystem_error& error) {
    throw UsageError(StrCat("data.files: ", error.path1().string(), ": ", error.code().message()));
  } catch (const IoError& error) {
    throw UsageError(StrCat("data.files: ", error.what()));
  }
  std::ranges::sort(files);
  const auto repeated = std::ranges::unique(files);
  files.erase(repeated.begin(), repeated.end());
  return files;
}

ByteCorpus::ByteCorpus(std::vector<std::string> files) : files_(std::move(files)) {
  int64_t end = 0, bytes = 0;
  for (const std::string& path : files_) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
      throw UsageError(StrCat("data.files: ", path, " is no file that can be read"));
    }
    bytes = CheckedAdd(bytes, status.st_size, "data.files");
    end = CheckedAdd(end, status.st_size + 1, "data.files");
    ends_.push_back(end);
  }
  if (bytes == 0) {
    throw UsageError(StrCat("data.files: ", files_.empty() ? "no file" : files_.front(),
                            files_.size() > 1 ? " and all other files are" : " is",
                            " empty; name files with text"));
  }
}

void ByteCorpus::Read(int64_t position, std::span<int64_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  THINWIRE_CHECK(position >= 0 && count <= tokens() - position, position, " + ", count);
  auto document = static_cast<size_t>(std::ranges::upper_bound(ends_, position) - ends_.begin());
  std::string bytes;
  for (int64_t done = 0; done < count; ++document) {
    const int64_t begin = document == 0 ? 0 : ends_[document - 1];
    const int64_t offset = position + done - begin;
    const int64_t text = std::min(ends_[document] - 1 - begin - offset, count - done);
    bytes.resize(static_cast<size_t>(text));
    if (text > 0) {
      const io::File file(io::RealFileSystem(), files_[document], io::OpenMode::kRead);
      file.ReadAt(offset, std::as_writable_bytes(std::span(bytes)));
    }
    for (const char c : bytes) out[static_cast<size_t>(done++)] = static_cast<unsigned char>(c);
    if (done < count) out[static_cast<size_t>(done++)] = kEndOfDocument;
  }
}

uint64_t ByteCorpus::Fingerprint() const {
  uint64_t hash = 0;
  for (size_t i = 0; i < files_.size(); ++i) {
    hash =
        HashBytes(fs::path(files_[i]).filename().string(), hash ^ static_cast<uint64_t>(ends_[i]));
  }
  return hash;
}

Permutation::Permutation(int64_t size, uint64_t key)
    : size_(size),
      key_(key),
      half_bits_(std::max(
          1, (static_cast<int>(std::bit_width(static_cast<uint64_t>(size - 1))) + 1) / 2)) {
  THINWIRE_CHECK(size > 0);
}

int64_t Permutation::operator()(int64_t index) const {
  THINWIRE_CHECK(index >= 0 && index < size_, index);
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<uint64_t>(index);
  do {
    uint64_t left = value >> half_bits_, right = value & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t mixed = left ^ (Mix64(key_ ^ Mix64(right * 4 + round)) & mask);
      left = right;
      right = mixed;
    }
    value = left << half_bits_ | right;
  } while (value >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(value);
}

Sampler::Sampler(const ByteCorpus& corpus, Range range, int64_t sequence_length, uint64_t seed,
                 const std::string& what)
    : corpus_(corpus),
      range_(range),
      sequence_length_(sequence_length),
      seed_(seed),
      windows_((range.end - range.begin - 1) / sequence_length) {
  if (windows_ < 1) {
    throw UsageError(StrCat("data.files: the ", what, " part has ", range.end - range.begin,
                            " tokens of ", corpus.tokens(),
                            ", but data.sequence_length = ", sequence_length, " needs ",
                            sequence_length + 1, "; give more text or a shorter sequence",
                            what == "evaluation" ? " or change data.evaluation_fraction" : ""));
  }
}

void Sampler::Sample(int64_t number, std::span<int64_t> inputs, std::span<int64_t> targets) const {
  const auto length = static_cast<size_t>(sequence_length_);
  THINWIRE_CHECK(inputs.size() == length && targets.size() == length);
  const auto epoch = static_cast<uint64_t>(number / windows_);
  const Permutation order(windows_, Mix64(seed_ ^ Mix64(epoch)));
  std::vector<int64_t> window(length + 1);
  corpus_.Read(range_.begin + order(number % windows_) * sequence_length_, window);
  std::copy_n(window.begin(), length, inputs.begin());
  std::copy_n(window.begin() + 1, length, targets.begin());
}

Split SplitCorpus(int64_t tokens, double evaluation_fraction) {
  const auto evaluation = static_cast<int64_t>(static_cast<double>(tokens) * evaluation_fraction);
  return {{0, tokens - evaluation}, {tokens - evaluation, tokens}};
}

}  // namespace thinwire::train
