#include "thinwire/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "thinwire/base/checked.h"
#include "thinwire/base/crc32c.h"
#include "thinwire/base/error.h"

namespace thinwire::io {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

constexpr int64_t kLengthBytes = 8;

SafetensorsHeader ReadHeader(const File& file, int64_t& data_begin) {
  const int64_t size = file.Size();
  const std::string& path = file.path();
  if (size < kLengthBytes) {
    throw UsageError(StrCat(path, ": ", size, " bytes are too few for a safetensors file"));
  }
  uint64_t length = 0;
  file.ReadAt(0, std::as_writable_bytes(std::span(&length, 1)));
  const uint64_t most = static_cast<uint64_t>(std::min(size - kLengthBytes, kMaxSafetensorsHeader));
  if (length > most) {
    throw UsageError(StrCat(path, ": a header of ", length, " bytes announced, at most ", most,
                            " possible; the file is cut off or not a safetensors file"));
  }
  std::string text(length, '\0');
  file.ReadAt(kLengthBytes, std::as_writable_bytes(std::span(text)));
  data_begin = kLengthBytes + static_cast<int64_t>(length);
  return ParseSafetensorsHeader(text, size - data_begin, path);
}

SafetensorsHeader PlaceTensors(std::vector<TensorToWrite>& tensors, const std::string& path) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
    return a.type != b.type ? a.type > b.type : a.name < b.name;
  });
  SafetensorsHeader header;
  std::map<std::string, int> names{{"__metadata__", 1}};
  int64_t begin = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::string what = StrCat(path, ": tensor \"", tensor.name, "\"");
    if (++names[tensor.name] > 1) throw UsageError(StrCat(what, ": this name is already taken"));
    const int64_t bytes = CheckedMul(CheckedNumel(tensor.shape, what), SizeOf(tensor.type), what);
    THINWIRE_CHECK(static_cast<uint64_t>(bytes) == tensor.data.size(), what, ": ", bytes,
                   " bytes by its shape, given ", tensor.data.size());
    header.tensors.push_back({tensor.name, tensor.type, tensor.shape, begin, bytes});
    begin = CheckedAdd(begin, bytes, what);
  }
  return header;
}

}  // namespace

SafetensorsFile::SafetensorsFile(FileSystem& fs, const std::string& path)
    : file_(fs, path, OpenMode::kRead), header_(ReadHeader(file_, data_begin_)) {
  for (size_t i = 0; i < header_.tensors.size(); ++i) index_[header_.tensors[i].name] = i;
}

const TensorInfo* SafetensorsFile::Find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.tensors[found->second];
}

void SafetensorsFile::Read(const TensorInfo& tensor, int64_t offset,
                           std::span<std::byte> to) const {
  THINWIRE_CHECK(offset >= 0 && offset <= tensor.bytes &&
                     to.size() <= static_cast<size_t>(tensor.bytes - offset),
                 tensor.name, ": ", to.size(), " bytes at ", offset, " of ", tensor.bytes);
  file_.ReadAt(data_begin_ + tensor.begin + offset, to);
}

WrittenFile WriteSafetensors(FileSystem& fs, const std::string& path,
                             std::vector<TensorToWrite> tensors,
                             const std::map<std::string, std::string>& metadata) {
  SafetensorsHeader header = PlaceTensors(tensors, path);
  header.metadata = metadata;
  const std::string text = FormatSafetensorsHeader(header, path);
  if (static_cast<int64_t>(text.size()) > kMaxSafetensorsHeader) {
    throw UsageError(StrCat(path, ": a header of ", text.size(), " bytes, at most ",
                            kMaxSafetensorsHeader, " are allowed; fewer or shorter names"));
  }

  File file(fs, path, OpenMode::kCreate);
  WrittenFile written;
  const auto append = [&](std::span<const std::byte> bytes) {
    file.Append(bytes);
    written.crc32c = Crc32c(bytes, written.crc32c);
  };
  const uint64_t length = text.size();
  append(std::as_bytes(std::span(&length, 1)));
  append(std::as_bytes(std::span(text)));
  for (const TensorToWrite& tensor : tensors) append(tensor.data);
  file.Sync();
  file.Close();
  written.bytes = file.appended();
  return written;
}

}  // namespace thinwire::io
