// The header of a safetensors file (https://github.com/huggingface/safetensors), strictly: what it
// may contain and how it must agree with the data behind it. Files come from anywhere.
//
//   8 bytes      length of the header, little-endian
//   header       JSON: {"__metadata__": {text: text}, name: {"dtype", "shape", "data_offsets"},
//   ...} data         the tensors, without holes or overlap
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::io {

// In the order of the format's own sorting: by size, larger last.
enum class TensorType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64,
};
std::string_view NameOf(TensorType type);  // as in the file: "F32", "BF16" ...
int64_t SizeOf(TensorType type);

struct TensorInfo {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // of the data, bytes from its start
  int64_t bytes = 0;

  bool operator==(const TensorInfo&) const = default;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors;  // in the order of the data
};

constexpr int64_t kMaxSafetensorsHeader = 100'000'000;  // bytes, as in the reference implementation

// The header `text` of a file with `data_bytes` behind it. Throws UsageError naming `file`, and the
// tensor where there is one, unless: `text` is one JSON object in UTF-8, begins with '{', without a
// key used twice and with nothing but the members above; dtypes are known; extents are integers
// >= 0 whose product times the size fits 64 bits and equals end - begin; and the tensors cover
// exactly [0, data_bytes) without hole or overlap.
SafetensorsHeader ParseSafetensorsHeader(std::string_view text, int64_t data_bytes,
                                         const std::string& file);

// The text for `header`, with the offsets it says, padded with spaces to a multiple of 8 bytes.
// Throws UsageError on a name or metadata that is not UTF-8.
std::string FormatSafetensorsHeader(const SafetensorsHeader& header, const std::string& file);

}  // namespace thinwire::io
