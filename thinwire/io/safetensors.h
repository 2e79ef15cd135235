// safetensors files: reading by range, writing in one go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "thinwire/io/file.h"
#include "thinwire/io/safetensors_header.h"

namespace thinwire::io {

class SafetensorsFile {
 public:
  // Reads and checks the header. Throws UsageError (see ParseSafetensorsHeader) or IoError.
  SafetensorsFile(FileSystem& fs, const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  // Null when there is none of this name.
  const TensorInfo* Find(const std::string& name) const;

  // to.size() bytes of the tensor, from byte `offset` of it.
  void Read(const TensorInfo& tensor, int64_t offset, std::span<std::byte> to) const;

 private:
  File file_;
  int64_t data_begin_ = 0;
  SafetensorsHeader header_;
  std::map<std::string, size_t> index_;
};

struct TensorToWrite {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

struct WrittenFile {
  int64_t bytes = 0;
  uint32_t crc32c = 0;  // of the whole file
};

// Writes and syncs the file; tensors lie in it by falling element size, then name, so that each is
// aligned to its elements. Throws UsageError on a name used twice or "__metadata__", IoError when
// the disk fails (what was written is left for the caller to remove).
WrittenFile WriteSafetensors(FileSystem& fs, const std::string& path,
                             std::vector<TensorToWrite> tensors,
                             const std::map<std::string, std::string>& metadata);

}  // namespace thinwire::io
