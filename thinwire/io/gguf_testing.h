// For tests: GGUF files byte by byte, from the format's description and not by the project's
// writer, so that everything in them can be wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::io {

class GgufBytes {
 public:
  template <typename T>
  GgufBytes& Put(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
    return *this;
  }
  GgufBytes& Raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  GgufBytes& String(std::string_view text) { return Put<uint64_t>(text.size()).Raw(text); }
  GgufBytes& Header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    return Raw("GGUF").Put(version).Put(tensors).Put(keys);
  }
  template <typename T>
  GgufBytes& Key(std::string_view key, uint32_t type, T value) {
    return String(key).Put(type).Put(value);
  }
  GgufBytes& KeyString(std::string_view key, std::string_view value) {
    return String(key).Put<uint32_t>(8).String(value);
  }
  // The elements follow.
  GgufBytes& KeyArray(std::string_view key, uint32_t element, uint64_t count) {
    return String(key).Put<uint32_t>(9).Put(element).Put(count);
  }
  // Extents in the file's order, the innermost first.
  GgufBytes& Tensor(std::string_view name, const std::vector<int64_t>& extents, uint32_t type,
                    uint64_t offset) {
    String(name).Put(static_cast<uint32_t>(extents.size()));
    for (const int64_t extent : extents) Put(extent);
    return Put(type).Put(offset);
  }
  GgufBytes& Pad(size_t alignment = 32) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }
  GgufBytes& Zeros(size_t bytes) {
    bytes_.resize(bytes_.size() + bytes);
    return *this;
  }

  const std::string& str() const { return bytes_; }

 private:
  std::string bytes_;
};

// Two keys, an array of each kind, two tensors: what most tests start from.
inline std::string SmallGguf() {
  GgufBytes file;
  file.Header(2, 5);
  file.KeyString("general.architecture", "llama");
  file.Key<uint32_t>("llama.block_count", 4, 2);
  file.KeyArray("tokenizer.ggml.tokens", 8, 3)
      .String("a")
      .String("")
      .String(
          "\xc4\xa0"
          "bc");
  file.KeyArray("tokenizer.ggml.scores", 6, 3).Put(0.5f).Put(-1.0f).Put(2.0f);
  file.Key<uint8_t>("flag", 7, 1);
  file.Tensor("a.weight", {32, 2}, 8, 0);  // Q8_0: 2 rows of 34 bytes
  file.Tensor("b.bias", {3}, 0, 96);
  file.Pad();
  for (int i = 0; i < 68; ++i) file.Put(static_cast<int8_t>(i));
  file.Pad().Put(1.0f).Put(2.0f).Put(3.0f);
  return file.str();
}

}  // namespace thinwire::io
