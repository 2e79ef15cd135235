// GGUF files, read through memory: metadata with types, tensors with their data where it lies.
//
//   GgufFile file("model.gguf")                            maps it and checks its header
//   file.Get<uint32_t>("llama.block_count")               the value, of exactly this type
//   file.GetInteger("llama.block_count", 1, 512)          of any integer type, within these bounds
//   file.Find<float>("llama.rope.freq_base")              none where the key is missing
//   file.GetArray<float>("tokenizer.ggml.scores")[7]
//   file.GetStrings("tokenizer.ggml.tokens")              views, one after the other
//   file.Tensor("token_embd.weight", {49152, 576}).data
//
// What does not fit is a UsageError that names file, key or tensor, what was expected and what was
// found. A file's strings are bytes: only keys and names of tensors are known to be UTF-8.
// All views point into the mapped file and die with the GgufFile.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/io/gguf_format.h"
#include "thinwire/io/gguf_parse.h"
#include "thinwire/io/mapped_file.h"

namespace thinwire::io {

// Elements of a fixed size as they lie in the file, aligned to nothing.
template <typename T>
class GgufArray {
 public:
  explicit GgufArray(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t size() const { return bytes_.size() / sizeof(T); }
  T operator[](size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  std::vector<T> ToVector() const {
    std::vector<T> values(size());
    if (!values.empty()) std::memcpy(values.data(), bytes_.data(), bytes_.size());
    return values;
  }

 private:
  std::span<const std::byte> bytes_;
};

class GgufFile {
 public:
  // Maps the file and checks all of its header (see ParseGguf), the data's place included; reads no
  // data. Throws UsageError, and IoError where it cannot be read.
  explicit GgufFile(const std::string& path);
  // What comes before the data (GgufWriter::Describe): tensors have names, types and shapes only.
  // `name` stands for the path in messages.
  GgufFile(std::string name, std::vector<std::byte> header);

  const std::string& path() const { return path_; }
  int64_t bytes() const { return static_cast<int64_t>(bytes_.size()); }
  uint32_t version() const { return content_.version; }
  int64_t alignment() const { return content_.alignment; }
  // In the order of the file.
  std::span<const GgufEntry> entries() const { return content_.entries; }
  std::span<const GgufTensor> tensors() const { return content_.tensors; }

  // Null when there is none.
  const GgufEntry* FindEntry(std::string_view key) const;
  const GgufTensor* FindTensor(std::string_view name) const;

  // T: the integers of 8 to 64 bits, float, double, bool, std::string_view. Throws when the key is
  // missing or the value is of another type.
  template <typename T>
  T Get(std::string_view key) const {
    return ValueOf<T>(Require(key, kGgufTypeOf<T>));
  }
  template <typename T>
  std::optional<T> Find(std::string_view key) const {
    if (FindEntry(key) == nullptr) return std::nullopt;
    return Get<T>(key);
  }

  // Of any integer type. Throws when the key is missing, of another type, or outside low..high.
  int64_t GetInteger(std::string_view key, int64_t low, int64_t high) const;
  std::optional<int64_t> FindInteger(std::string_view key, int64_t low, int64_t high) const;
  // The same for an array of them: some keys have a value per layer.
  std::vector<int64_t> GetIntegers(std::string_view key, int64_t low, int64_t high) const;

  // T as above but for strings.
  template <typename T>
  GgufArray<T> GetArray(std::string_view key) const {
    static_assert(!std::same_as<T, std::string_view>, "GetStrings");
    return GgufArray<T>(RequireArray(key, kGgufTypeOf<T>).value);
  }
  template <typename T>
  std::optional<GgufArray<T>> FindArray(std::string_view key) const {
    if (FindEntry(key) == nullptr) return std::nullopt;
    return GetArray<T>(key);
  }
  // Made in one pass, with one allocation.
  std::vector<std::string_view> GetStrings(std::string_view key) const;
  std::optional<std::vector<std::string_view>> FindStrings(std::string_view key) const;

  // Throws when it is missing, or of another shape than the one expected.
  const GgufTensor& Tensor(std::string_view name) const;
  const GgufTensor& Tensor(std::string_view name, std::initializer_list<int64_t> shape) const;

  // Takes a tensor's data, or a part of it, out of this process's memory (MappedFile::Drop): for
  // whoever has made a copy of it.
  void Drop(std::span<const std::byte> data) const;

 private:
  const GgufEntry& Require(std::string_view key, GgufType type) const;
  const GgufEntry& RequireArray(std::string_view key, GgufType element) const;
  [[noreturn]] void Fail(std::string_view key, std::string_view problem) const;

  template <typename T>
  static T ValueOf(const GgufEntry& entry) {
    if constexpr (std::same_as<T, std::string_view>) {
      return {reinterpret_cast<const char*>(entry.value.data()), entry.value.size()};
    } else {
      return GgufArray<T>(entry.value)[0];
    }
  }

  const std::string path_;
  const std::unique_ptr<const MappedFile> mapped_;  // null where there is a header only
  const std::vector<std::byte> header_;
  const std::span<const std::byte> bytes_;  // of either
  const GgufContent content_;
};

}  // namespace thinwire::io
