// CTranslate2's model.bin: named tensors, read through memory.
//
//   u32 version, string name of the kind of model, u32 its revision
//   u32 count, then per tensor: string name, u8 rank, u32 extents, u8 type, u32 bytes, data
//   u32 count, then pairs of strings: another name and the tensor's
// A string is a u16 length, its final zero included, and the bytes. Everything little-endian.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/io/mapped_file.h"

namespace thinwire::speech {

enum class Ct2Type : uint8_t { kF32 = 0, kI8 = 1, kI16 = 2, kI32 = 3, kF16 = 4, kBF16 = 5 };

struct Ct2Tensor {
  Ct2Type type = Ct2Type::kF32;
  std::vector<int64_t> shape;  // empty: one number
  std::span<const std::byte> data;
};

class Ct2File {
 public:
  // Versions 4 to 6. Throws UsageError naming file and tensor where a string, extent or size does
  // not fit the file, a type is unknown or a name stands twice; IoError where it cannot be read.
  explicit Ct2File(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::string& kind() const { return kind_; }  // "WhisperSpec"

  // Null when there is none.
  const Ct2Tensor* Find(std::string_view name) const;
  // Throws when it is missing.
  const Ct2Tensor& Tensor(std::string_view name) const;
  // A tensor of one integer.
  int64_t Integer(std::string_view name) const;

  void Drop(const Ct2Tensor& tensor) const;

 private:
  class Reader;

  io::MappedFile file_;
  std::string kind_;
  std::map<std::string, Ct2Tensor, std::less<>> tensors_;
};

}  // namespace thinwire::speech
