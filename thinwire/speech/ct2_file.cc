#include "thinwire/speech/ct2_file.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "thinwire/base/checked.h"

namespace thinwire::speech {
namespace {

constexpr uint32_t kFirstVersion = 4, kLastVersion = 6;
constexpr uint32_t kMaxTensors = 1 << 16;
constexpr uint8_t kMaxRank = 4;
constexpr size_t kMaxName = 512;

bool IsPrintable(char c) { return c >= ' ' && c <= '~'; }

std::optional<int64_t> BytesOf(uint8_t type) {
  switch (static_cast<Ct2Type>(type)) {
    case Ct2Type::kF32:
    case Ct2Type::kI32:
      return 4;
    case Ct2Type::kI16:
    case Ct2Type::kF16:
    case Ct2Type::kBF16:
      return 2;
    case Ct2Type::kI8:
      return 1;
  }
  return std::nullopt;
}

}  // namespace

class Ct2File::Reader {
 public:
  explicit Reader(Ct2File& to) : to_(to), left_(to.file_.bytes()) {}

  void Read() {
    const auto version = Number<uint32_t>("its version");
    if (version < kFirstVersion || version > kLastVersion) {
      Fail("", StrCat("is no model.bin of CTranslate2 of version ", kFirstVersion, " to ",
                      kLastVersion, " (it begins with ", version, ")"));
    }
    to_.kind_ = String("the kind of model");
    Number<uint32_t>("its revision");
    const uint32_t tensors = Count("tensors");
    for (uint32_t i = 0; i < tensors; ++i) ReadTensor();
    const uint32_t aliases = Count("other names");
    for (uint32_t i = 0; i < aliases; ++i) {
      const std::string alias = String("another name"), name = String("a name");
      const Ct2Tensor* const tensor = to_.Find(name);
      if (tensor == nullptr) Fail(alias, StrCat("stands for ", name, ", which is not there"));
      Insert(alias, *tensor);
    }
    if (!left_.empty()) Fail("", StrCat("goes on for ", left_.size(), " bytes after its end"));
  }

 private:
  [[noreturn]] void Fail(const std::string& name, const std::string& problem) const {
    throw UsageError(StrCat(to_.path(), ": ", name, name.empty() ? "" : ": ", problem));
  }

  std::span<const std::byte> Bytes(size_t count, const std::string& what) {
    if (count > left_.size()) {
      Fail(what, StrCat("takes ", count, " bytes, but the file ends after ", left_.size()));
    }
    const std::span<const std::byte> bytes = left_.first(count);
    left_ = left_.subspan(count);
    return bytes;
  }

  template <typename T>
  T Number(const std::string& what) {
    T value;
    std::memcpy(&value, Bytes(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  uint32_t Count(const std::string& what) {
    const auto count = Number<uint32_t>(what);
    if (count > kMaxTensors)
      Fail("", StrCat("has ", count, " ", what, "; ", kMaxTensors, " at most"));
    return count;
  }

  std::string String(const std::string& what) {
    const std::span<const std::byte> bytes = Bytes(Number<uint16_t>(what), what);
    if (bytes.empty() || bytes.back() != std::byte{0}) Fail(what, "does not end in a zero byte");
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size() - 1);
    // Messages quote names as they are.
    if (text.size() > kMaxName || !std::ranges::all_of(text, IsPrintable)) {
      Fail(what, StrCat("is no text of printable ASCII, ", kMaxName, " characters at most"));
    }
    return text;
  }

  void ReadTensor() {
    const std::string name = String("the name of a tensor");
    const auto rank = Number<uint8_t>(name);
    if (rank > kMaxRank)
      Fail(name, StrCat("has ", int{rank}, " extents; ", int{kMaxRank}, " at most"));
    Ct2Tensor tensor;
    for (uint8_t i = 0; i < rank; ++i) tensor.shape.push_back(Number<uint32_t>(name));
    const auto type = Number<uint8_t>(name);
    const std::optional<int64_t> element = BytesOf(type);
    if (!element) Fail(name, StrCat("is of unknown type ", int{type}));
    tensor.type = static_cast<Ct2Type>(type);
    const auto stated = Number<uint32_t>(name);
    const std::string what = StrCat(to_.path(), ": ", name);
    const int64_t bytes = CheckedMul(CheckedNumel(tensor.shape, what), *element, what);
    if (bytes != stated) {
      Fail(name, StrCat("is said to take ", stated, " bytes; its shape takes ", bytes));
    }
    tensor.data = Bytes(stated, name);
    Insert(name, tensor);
  }

  void Insert(const std::string& name, const Ct2Tensor& tensor) {
    if (!to_.tensors_.emplace(name, tensor).second) Fail(name, "stands twice");
  }

  Ct2File& to_;
  std::span<const std::byte> left_;
};

Ct2File::Ct2File(const std::string& path) : file_(path) { Reader(*this).Read(); }

const Ct2Tensor* Ct2File::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const Ct2Tensor& Ct2File::Tensor(std::string_view name) const {
  const Ct2Tensor* const tensor = Find(name);
  if (tensor == nullptr) throw UsageError(StrCat(path(), ": ", name, " is missing"));
  return *tensor;
}

int64_t Ct2File::Integer(std::string_view name) const {
  const Ct2Tensor& tensor = Tensor(name);
  const auto value = [&tensor]<typename T>(T x) -> int64_t {
    std::memcpy(&x, tensor.data.data(), sizeof(T));
    return x;
  };
  if (tensor.shape.empty()) {
    if (tensor.type == Ct2Type::kI8) return value(int8_t{});
    if (tensor.type == Ct2Type::kI16) return value(int16_t{});
    if (tensor.type == Ct2Type::kI32) return value(int32_t{});
  }
  throw UsageError(StrCat(path(), ": ", name, " is no single integer"));
}

void Ct2File::Drop(const Ct2Tensor& tensor) const {
  file_.Drop(tensor.data.data() - file_.bytes().data(), static_cast<int64_t>(tensor.data.size()));
}

}  // namespace thinwire::speech
