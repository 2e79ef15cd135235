// CTranslate2's model.bin of any bytes: refused with a UsageError of one line, or its tensors can
// be looked at.
#include "tests/fuzz/checks.h"
#include "tests/fuzz/target.h"
#include "thinwire/speech/ct2_file.h"

namespace thinwire::fuzz {
namespace {

class Bytes {
 public:
  template <typename T>
  Bytes& Put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Bytes& String(const std::string& text) {
    Put(static_cast<uint16_t>(text.size() + 1));
    text_ += text + '\0';
    return *this;
  }
  Bytes& Zeros(size_t count) {
    text_.append(count, '\0');
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

std::vector<std::string> Seeds() {
  Bytes bytes;
  bytes.Put<uint32_t>(6).String("WhisperSpec").Put<uint32_t>(3).Put<uint32_t>(3);
  bytes.String("weight").Put<uint8_t>(2).Put<uint32_t>(2).Put<uint32_t>(3);
  bytes.Put<uint8_t>(4).Put<uint32_t>(12).Zeros(12);
  bytes.String("heads").Put<uint8_t>(0).Put<uint8_t>(2).Put<uint32_t>(2).Put<int16_t>(6);
  bytes.String("x").Put<uint8_t>(1).Put<uint32_t>(2).Put<uint8_t>(0).Put<uint32_t>(8).Zeros(8);
  bytes.Put<uint32_t>(1).String("head").String("weight");
  return {bytes.text()};
}

}  // namespace thinwire::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thinwire;
  const fuzz::MemoryFile bytes(std::as_bytes(std::span(data, size)));
  fuzz::Accepts(bytes.path(), [&] {
    const speech::Ct2File file(bytes.path());
    for (const char* name : {"weight", "heads", "x", "head"}) {
      fuzz::Accepts(bytes.path(), [&] { file.Integer(name); });
      const speech::Ct2Tensor* tensor = file.Find(name);
      if (tensor == nullptr) continue;
      size_t sum = 0;
      for (const std::byte byte : tensor->data) sum += static_cast<size_t>(byte);
      fuzz::Require(tensor->data.size() <= size && sum <= 255 * size, "data from nowhere");
      file.Drop(*tensor);
    }
  });
  return 0;
}
