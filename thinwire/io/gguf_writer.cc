#include "thinwire/io/gguf_writer.h"

#include <bit>
#include <cstring>
#include <utility>

#include "thinwire/base/checked.h"
#include "thinwire/base/error.h"

namespace thinwire::io {
namespace {

static_assert(std::endian::native == std::endian::little, "values are written as they lie");

// A tensor's rows may come one at a time; the disk gets them in pieces of this size.
constexpr size_t kBufferBytes = 1 << 20;

template <typename T>
void AppendValue(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

GgufWriter::GgufWriter(FileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}

GgufWriter::~GgufWriter() {
  if (stage_ != Stage::kWriting) return;
  file_.reset();
  fs_.Remove(path_ + ".tmp");  // best effort: the error that led here is the one to report
}

void GgufWriter::Fail(const char* kind, std::string_view name, std::string_view problem) const {
  throw UsageError(StrCat(path_, ": ", kind, " ", QuotedName(name), ": ", problem));
}

void GgufWriter::CheckName(const char* kind, std::string_view name,
                           std::set<std::string>& taken) const {
  THINWIRE_CHECK(stage_ == Stage::kDeclaring, path_, ": ", kind, " ", name, " after Begin");
  if (const char* problem = GgufNameProblem(name)) Fail(kind, name, problem);
  if (!taken.emplace(name).second) Fail(kind, name, "is there already");
}

void GgufWriter::AppendString(std::string& to, std::string_view string) {
  AppendValue<uint64_t>(to, string.size());
  to += string;
}

void GgufWriter::Add(const GgufEntry& entry) {
  CheckName("key", entry.key, keys_);
  if (keys_.size() > kGgufMaxKeys) {
    Fail("key", entry.key, StrCat("at most ", kGgufMaxKeys, " keys are written"));
  }
  if (entry.key == kGgufAlignmentKey) {
    if (entry.type != GgufType::kU32) Fail("key", entry.key, "must be a u32");
    std::memcpy(&alignment_, entry.value.data(), sizeof alignment_);
    if (!std::has_single_bit(alignment_) || alignment_ < 8) {
      Fail("key", entry.key, StrCat("a power of two from 8 on expected, found ", alignment_));
    }
  }
  AppendString(entries_, entry.key);
  AppendValue(entries_, static_cast<uint32_t>(entry.type));
  if (entry.type == GgufType::kArray) {
    AppendValue(entries_, static_cast<uint32_t>(entry.element));
    AppendValue(entries_, entry.count);
  } else if (entry.type == GgufType::kString) {
    AppendValue<uint64_t>(entries_, entry.value.size());
  }
  entries_.append(reinterpret_cast<const char*>(entry.value.data()), entry.value.size());
}

void GgufWriter::Declare(std::string_view name, WeightType type, std::span<const int64_t> shape) {
  CheckName("tensor", name, names_);
  if (names_.size() > kGgufMaxTensors) {
    Fail("tensor", name, StrCat("at most ", kGgufMaxTensors, " tensors are written"));
  }
  if (shape.size() > kGgufMaxRank) {
    Fail("tensor", name, StrCat(shape.size(), " extents, at most ", kGgufMaxRank, " are written"));
  }
  for (const int64_t extent : shape) {
    if (extent < 1) Fail("tensor", name, StrCat("an extent of ", extent));
  }
  const int64_t columns = shape.empty() ? 1 : shape.back();
  if (columns % BlockElements(type) != 0) {
    Fail("tensor", name,
         StrCat("rows of ", columns, " cannot be ", NameOf(type), ", which comes in blocks of ",
                BlockElements(type)));
  }
  const std::string what = StrCat(path_, ": tensor ", QuotedName(name));
  const int64_t bytes = WeightBytes(type, CheckedNumel(shape, what), what);
  tensors_.push_back({std::string(name), type, {shape.begin(), shape.end()}, bytes});
}

int64_t GgufWriter::Aligned(int64_t offset, std::string_view what) const {
  return CheckedAdd(offset, alignment_ - 1, what) / alignment_ * alignment_;
}

std::string GgufWriter::Header() const {
  std::string header(kGgufMagic);
  AppendValue(header, kGgufVersion);
  AppendValue<uint64_t>(header, tensors_.size());
  AppendValue<uint64_t>(header, keys_.size());
  header += entries_;
  int64_t offset = 0;
  for (const Declared& tensor : tensors_) {
    AppendString(header, tensor.name);
    AppendValue(header, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;) AppendValue(header, tensor.shape[i]);
    AppendValue(header, static_cast<uint32_t>(tensor.type));
    AppendValue(header, offset);
    offset = Aligned(CheckedAdd(offset, tensor.bytes, path_), path_);
  }
  return header;
}

std::vector<std::byte> GgufWriter::Describe() const {
  const std::string header = Header();
  const auto bytes = std::as_bytes(std::span(header));
  return {bytes.begin(), bytes.end()};
}

void GgufWriter::Begin() {
  THINWIRE_CHECK(stage_ == Stage::kDeclaring, path_, ": Begin twice");
  const std::string header = Header();
  total_ = Aligned(static_cast<int64_t>(header.size()), path_);
  for (const Declared& tensor : tensors_) {
    total_ = Aligned(CheckedAdd(total_, tensor.bytes, path_), path_);
  }
  RequireFreeBytes(fs_, ParentOf(path_), total_);
  file_ = std::make_unique<File>(fs_, path_ + ".tmp", OpenMode::kCreate);
  stage_ = Stage::kWriting;
  entries_ = {};
  buffer_.reserve(kBufferBytes);
  Put(std::as_bytes(std::span(header)));
  Pad();
}

void GgufWriter::Append(std::string_view name, std::span<const std::byte> bytes) {
  THINWIRE_CHECK(stage_ == Stage::kWriting, path_, ": ", name, " outside of Begin and Finish");
  THINWIRE_CHECK(current_ < tensors_.size(), path_, ": ", name, ", but all data is there");
  const Declared& tensor = tensors_[current_];
  THINWIRE_CHECK(tensor.name == name, path_, ": ", tensor.name, " comes next, given ", name);
  THINWIRE_CHECK(bytes.size() <= static_cast<size_t>(tensor.bytes - appended_), path_, ": ", name,
                 ": ", bytes.size(), " bytes more, ", tensor.bytes - appended_, " are missing");
  Put(bytes);
  appended_ += static_cast<int64_t>(bytes.size());
  if (appended_ < tensor.bytes) return;
  Pad();
  ++current_;
  appended_ = 0;
}

void GgufWriter::Finish() {
  THINWIRE_CHECK(stage_ == Stage::kWriting, path_, ": Finish without Begin");
  THINWIRE_CHECK(current_ == tensors_.size(), path_, ": the data of ", tensors_[current_].name,
                 " is incomplete");
  THINWIRE_CHECK(put_ == total_, path_, ": ", put_, " bytes written, planned ", total_);
  Flush();
  file_->Sync();
  file_->Close();
  Rename(fs_, path_ + ".tmp", path_);
  stage_ = Stage::kFinished;
  SyncDirectory(fs_, ParentOf(path_));
}

void GgufWriter::Put(std::span<const std::byte> bytes) {
  put_ += static_cast<int64_t>(bytes.size());
  if (buffer_.size() + bytes.size() > kBufferBytes) Flush();
  if (bytes.size() >= kBufferBytes) {
    file_->Append(bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void GgufWriter::Pad() {
  const int64_t missing = Aligned(put_, path_) - put_;
  if (missing > 0) Put(std::vector<std::byte>(static_cast<size_t>(missing)));
}

void GgufWriter::Flush() {
  file_->Append(buffer_);
  buffer_.clear();
}

}  // namespace thinwire::io
