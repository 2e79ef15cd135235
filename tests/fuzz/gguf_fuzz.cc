// GGUF files of any bytes: refused with a UsageError of one line, or read, and then everything in
// them can be looked at, and what is written of it reads the same.
#include <algorithm>

#include "tests/fuzz/checks.h"
#include "tests/fuzz/target.h"
#include "thinwire/io/gguf.h"
#include "thinwire/io/gguf_parse.h"
#include "thinwire/io/gguf_testing.h"
#include "thinwire/io/gguf_writer.h"
#include "thinwire/io/testing.h"

namespace thinwire::fuzz {
namespace {

// A wrong use of a file that was read is a UsageError, too.
void LookAt(const io::GgufFile& file) {
  const auto Use = [&](const auto& call) { Accepts(file.path(), call); };
  for (const io::GgufEntry& entry : file.entries()) {
    Require(file.FindEntry(entry.key) == &entry, "a key that is not found");
    Use([&] { file.Get<uint32_t>(entry.key); });
    Use([&] { file.Get<bool>(entry.key); });
    Use([&] { file.Get<double>(entry.key); });
    Use([&] { file.Get<std::string_view>(entry.key); });
    Use([&] { file.GetInteger(entry.key, 0, 1 << 20); });
    Use([&] { file.GetIntegers(entry.key, 0, 1 << 20); });
    Use([&] { file.GetArray<float>(entry.key).ToVector(); });
    Use([&] { file.GetArray<uint64_t>(entry.key).ToVector(); });
    Use([&] {
      size_t bytes = 0;
      for (const std::string_view text : file.GetStrings(entry.key)) {
        bytes += 8 + std::string(text).size();
      }
      Require(bytes == entry.value.size(), "strings that are not the array");
    });
    Use([&] { file.Tensor(entry.key, {2, 3}); });
  }
  for (const io::GgufTensor& tensor : file.tensors()) {
    Require(&file.Tensor(tensor.name) == &tensor, "a tensor that is not found");
    Require(WeightBytes(tensor.type, tensor.elements(), tensor.name) ==
                static_cast<int64_t>(tensor.data.size()),
            "data of another size than the shape's");
    const std::vector<std::byte> copy(tensor.data.begin(), tensor.data.end());
    file.Drop(tensor.data);
    Require(std::ranges::equal(copy, tensor.data), "data that changed when it was dropped");
  }
}

void RoundTrip(const io::GgufFile& file) {
  static const io::TestDirectory directory;
  const std::string path = directory / "x.gguf";
  io::GgufWriter writer(io::RealFileSystem(), path);
  for (const io::GgufEntry& entry : file.entries()) writer.Add(entry);
  for (const io::GgufTensor& tensor : file.tensors()) {
    writer.Declare(tensor.name, tensor.type, tensor.shape());
  }
  writer.Begin();
  for (const io::GgufTensor& tensor : file.tensors()) writer.Append(tensor.name, tensor.data);
  writer.Finish();
  const io::GgufFile again(path);
  Require(std::ranges::equal(file.entries(), again.entries(),
                             [](const io::GgufEntry& a, const io::GgufEntry& b) {
                               return a.key == b.key && a.type == b.type &&
                                      a.element == b.element && a.count == b.count &&
                                      std::ranges::equal(a.value, b.value);
                             }),
          "metadata that reads differently when written");
  Require(std::ranges::equal(file.tensors(), again.tensors(),
                             [](const io::GgufTensor& a, const io::GgufTensor& b) {
                               return a.name == b.name && a.type == b.type &&
                                      std::ranges::equal(a.shape(), b.shape()) &&
                                      std::ranges::equal(a.data, b.data);
                             }),
          "tensors that read differently when written");
}

}  // namespace

std::vector<std::string> Seeds() {
  io::GgufBytes types;
  types.Header(static_cast<uint64_t>(AllWeightTypes().size()), 3);
  types.Key<uint32_t>("general.alignment", 4, 64);
  types.Key<uint64_t>("u64", 10, 7);
  types.KeyArray("i16", 3, 3).Put<int16_t>(-1).Put<int16_t>(0).Put<int16_t>(1);
  uint64_t offset = 0;
  for (const WeightType type : AllWeightTypes()) {
    types.Tensor(NameOf(type), {BlockElements(type)}, static_cast<uint32_t>(type), offset);
    offset += (static_cast<uint64_t>(BlockBytes(type)) + 63) / 64 * 64;
  }
  types.Pad(64).Zeros(offset);
  return {io::SmallGguf(), types.str()};
}

}  // namespace thinwire::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thinwire;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (!fuzz::Accepts("input: ", [&] { io::ParseGguf(bytes, "input"); })) return 0;
  // Maps what can be read once more: GgufFile wants a path.
  const fuzz::MemoryFile memory(bytes);
  const io::GgufFile file(memory.path());
  fuzz::LookAt(file);
  // An alignment of gigabytes is fine, but not on this disk.
  if (file.alignment() <= 4096) fuzz::RoundTrip(file);
  return 0;
}
