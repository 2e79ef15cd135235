// The header of a GGUF file, checked. For callers: thinwire/io/gguf.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/io/gguf_format.h"

namespace thinwire::io {

struct GgufContent {
  uint32_t version = 0;
  int64_t alignment = 0;
  int64_t data_begin = 0;  // byte of the file that tensors' offsets count from
  std::vector<GgufEntry> entries;
  std::vector<GgufTensor> tensors;
  // Indices into them, in order of key and name.
  std::vector<uint32_t> entries_by_key;
  std::vector<uint32_t> tensors_by_name;
};

// `bytes` is the whole file, `path` its name for messages. What is returned points into `bytes`.
// Allocates only these vectors, which grow with what was found, not with what was announced.
//
// Throws UsageError that names the file and the key or tensor when anything does not fit: magic,
// version (2 and 3 are read), a big-endian file; counts, lengths and offsets beyond what is there;
// products beyond 64 bits; names (see GgufNameProblem) or used twice; unknown types, arrays of
// arrays, a bool that is neither 0 nor 1; an alignment that is no u32 or no power of two from 8 on;
// more than four extents or one below 1; rows that are no whole number of blocks; offsets off the
// alignment; tensors that overlap.
// With `data_is_here` false `bytes` ends where the data would begin, and tensors have none.
GgufContent ParseGguf(std::span<const std::byte> bytes, const std::string& path,
                      bool data_is_here = true);

}  // namespace thinwire::io
