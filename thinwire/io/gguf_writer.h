// Writes a GGUF file (version 3) as a stream: first everything but the data is declared, then the
// data comes in any pieces, so that no more than one piece of a model is ever in memory.
//
//   GgufWriter writer(fs, "model.gguf")
//   writer.Set<uint32_t>("llama.block_count", 30)
//   writer.Declare("token_embd.weight", WeightType::kQ8_0, {49152, 576})
//   writer.Begin()
//   writer.Append("token_embd.weight", piece)        until its data is complete, then the next
//   writer.Finish()
//
// The file appears whole or not at all: it is written as `path`.tmp, synced, then renamed.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/io/file.h"
#include "thinwire/io/gguf_format.h"

namespace thinwire::io {

class GgufWriter {
 public:
  // Touches no file yet. `fs` outlives the writer.
  GgufWriter(FileSystem& fs, std::string path);
  // Removes what is unfinished.
  ~GgufWriter();
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  // Metadata, in the order of the calls; T as in GgufFile::Get. They throw UsageError on a bad name
  // (GgufNameProblem), a key that is there already, and a "general.alignment" that is no u32 or no
  // power of two from 8 on; without that key the data is aligned to 32 bytes.
  template <typename T>
  void Set(std::string_view key, T value) {
    if constexpr (std::same_as<T, std::string_view>) {
      Add({key, GgufType::kString, GgufType::kString, 1, std::as_bytes(std::span(value))});
    } else {
      Add({key, kGgufTypeOf<T>, kGgufTypeOf<T>, 1, std::as_bytes(std::span(&value, 1))});
    }
  }
  template <typename T>
  void SetArray(std::string_view key, std::span<const T> values) {
    static_assert(!std::same_as<T, std::string_view>, "SetStrings");
    Add({key, GgufType::kArray, kGgufTypeOf<T>, static_cast<int64_t>(values.size()),
         std::as_bytes(values)});
  }
  // Of anything that std::string_view can view.
  template <typename Strings>
  void SetStrings(std::string_view key, const Strings& strings) {
    std::string bytes;
    for (const std::string_view string : strings) AppendString(bytes, string);
    Add({key, GgufType::kArray, GgufType::kString, static_cast<int64_t>(std::size(strings)),
         std::as_bytes(std::span(bytes))});
  }
  // An entry of a file that was read, as it is.
  void Add(const GgufEntry& entry);

  // The outermost extent first. Throws UsageError on a bad name, one that is there already, more
  // than four extents, one below 1, and rows that are no whole number of blocks.
  void Declare(std::string_view name, WeightType type, std::span<const int64_t> shape);
  void Declare(std::string_view name, WeightType type, std::initializer_list<int64_t> shape) {
    Declare(name, type, std::span(shape.begin(), shape.size()));
  }

  // What the file has before its data, without a file: for GgufFile.
  std::vector<std::byte> Describe() const;

  // Creates the file. Throws IoError when the disk has not the room for all that is declared.
  void Begin();
  // The next bytes of the data of `name`: tensors come in the order of their declaration, each
  // completely.
  void Append(std::string_view name, std::span<const std::byte> bytes);
  // All data must be there.
  void Finish();

  // Of the whole file, once Begin has run.
  int64_t bytes() const { return total_; }

 private:
  enum class Stage : uint8_t {
    kDeclaring,  // metadata and declarations are in memory
    kWriting,    // `path`.tmp exists
    kFinished,   // `path` exists
  };
  struct Declared {
    std::string name;
    WeightType type;
    std::vector<int64_t> shape;
    int64_t bytes;
  };

  static void AppendString(std::string& to, std::string_view string);
  [[noreturn]] void Fail(const char* kind, std::string_view name, std::string_view problem) const;
  void CheckName(const char* kind, std::string_view name, std::set<std::string>& taken) const;
  int64_t Aligned(int64_t offset, std::string_view what) const;
  std::string Header() const;
  void Put(std::span<const std::byte> bytes);
  void Pad();
  void Flush();

  FileSystem& fs_;
  std::string path_;
  Stage stage_ = Stage::kDeclaring;
  std::string entries_;  // as they stand in the file
  std::set<std::string> keys_, names_;
  std::vector<Declared> tensors_;
  uint32_t alignment_ = kGgufAlignment;
  int64_t total_ = 0;
  size_t current_ = 0;    // the tensor whose data comes next
  int64_t appended_ = 0;  // bytes of it that are there
  int64_t put_ = 0;       // bytes of the file so far, buffered ones included
  std::vector<std::byte> buffer_;
  std::unique_ptr<File> file_;
};

}  // namespace thinwire::io
