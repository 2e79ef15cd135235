#include "thinwire/io/gguf.h"

#include <algorithm>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::io {
namespace {

template <typename T>
const T* FindBy(std::string_view T::*name, const std::vector<T>& all,
                const std::vector<uint32_t>& order, std::string_view wanted) {
  const auto name_of = [&](uint32_t i) { return all[i].*name; };
  const auto found = std::ranges::lower_bound(order, wanted, {}, name_of);
  return found == order.end() || name_of(*found) != wanted ? nullptr : &all[*found];
}

template <typename T>
std::optional<int64_t> Fitting(std::span<const std::byte> value, size_t i) {
  const T found = GgufArray<T>(value)[i];
  if (!std::in_range<int64_t>(found)) return std::nullopt;
  return static_cast<int64_t>(found);
}

// The i-th of some integers of `type`; none when it is 2^63 or more.
std::optional<int64_t> IntegerAt(GgufType type, std::span<const std::byte> value, size_t i) {
  switch (type) {
    case GgufType::kU8:
      return Fitting<uint8_t>(value, i);
    case GgufType::kI8:
      return Fitting<int8_t>(value, i);
    case GgufType::kU16:
      return Fitting<uint16_t>(value, i);
    case GgufType::kI16:
      return Fitting<int16_t>(value, i);
    case GgufType::kU32:
      return Fitting<uint32_t>(value, i);
    case GgufType::kI32:
      return Fitting<int32_t>(value, i);
    case GgufType::kU64:
      return Fitting<uint64_t>(value, i);
    case GgufType::kI64:
      return Fitting<int64_t>(value, i);
    default:
      THINWIRE_CHECK(false, NameOf(type));
  }
}

std::string ShapeText(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t extent : shape) text += StrCat(text.size() > 1 ? ", " : "", extent);
  return text + "]";
}

}  // namespace

GgufFile::GgufFile(const std::string& path)
    : path_(path),
      mapped_(std::make_unique<MappedFile>(path)),
      bytes_(mapped_->bytes()),
      content_(ParseGguf(bytes_, path)) {}

GgufFile::GgufFile(std::string name, std::vector<std::byte> header)
    : path_(std::move(name)),
      header_(std::move(header)),
      bytes_(header_),
      content_(ParseGguf(bytes_, path_, /*data_is_here=*/false)) {}

const GgufEntry* GgufFile::FindEntry(std::string_view key) const {
  return FindBy(&GgufEntry::key, content_.entries, content_.entries_by_key, key);
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  return FindBy(&GgufTensor::name, content_.tensors, content_.tensors_by_name, name);
}

void GgufFile::Fail(std::string_view key, std::string_view problem) const {
  throw UsageError(StrCat(path(), ": key ", QuotedName(key), ": ", problem));
}

const GgufEntry& GgufFile::Require(std::string_view key, GgufType type) const {
  const GgufEntry* entry = FindEntry(key);
  if (entry == nullptr) Fail(key, StrCat(NameOf(type), " expected, but the key is missing"));
  if (entry->type != type) Fail(key, StrCat(NameOf(type), " expected, found ", Describe(*entry)));
  return *entry;
}

const GgufEntry& GgufFile::RequireArray(std::string_view key, GgufType element) const {
  const GgufEntry* entry = FindEntry(key);
  const std::string expected = StrCat("array of ", NameOf(element), " expected, ");
  if (entry == nullptr) Fail(key, expected + "but the key is missing");
  if (entry->type != GgufType::kArray || entry->element != element) {
    Fail(key, StrCat(expected, "found ", Describe(*entry)));
  }
  return *entry;
}

int64_t GgufFile::GetInteger(std::string_view key, int64_t low, int64_t high) const {
  const GgufEntry* entry = FindEntry(key);
  if (entry == nullptr) Fail(key, "an integer expected, but the key is missing");
  if (!IsInteger(entry->type)) Fail(key, "an integer expected, found " + Describe(*entry));
  const auto value = IntegerAt(entry->type, entry->value, 0);
  if (!value || *value < low || *value > high) {
    Fail(key, StrCat(low, " to ", high, " expected, found ",
                     value ? std::to_string(*value) : "2^63 or more"));
  }
  return *value;
}

std::optional<int64_t> GgufFile::FindInteger(std::string_view key, int64_t low,
                                             int64_t high) const {
  if (FindEntry(key) == nullptr) return std::nullopt;
  return GetInteger(key, low, high);
}

std::vector<int64_t> GgufFile::GetIntegers(std::string_view key, int64_t low, int64_t high) const {
  const GgufEntry* entry = FindEntry(key);
  if (entry == nullptr) Fail(key, "an array of integers expected, but the key is missing");
  if (entry->type != GgufType::kArray || !IsInteger(entry->element)) {
    Fail(key, "an array of integers expected, found " + Describe(*entry));
  }
  std::vector<int64_t> values(static_cast<size_t>(entry->count));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = IntegerAt(entry->element, entry->value, i);
    if (!value || *value < low || *value > high) {
      Fail(key, StrCat("element ", i, ": ", low, " to ", high, " expected, found ",
                       value ? std::to_string(*value) : "2^63 or more"));
    }
    values[i] = *value;
  }
  return values;
}

std::vector<std::string_view> GgufFile::GetStrings(std::string_view key) const {
  const GgufEntry& entry = RequireArray(key, GgufType::kString);
  std::vector<std::string_view> strings(static_cast<size_t>(entry.count));
  const char* at = reinterpret_cast<const char*>(entry.value.data());
  for (std::string_view& string : strings) {
    uint64_t length = 0;  // ParseGguf has seen that each fits
    std::memcpy(&length, at, sizeof length);
    string = {at + sizeof length, length};
    at = string.data() + length;
  }
  return strings;
}

std::optional<std::vector<std::string_view>> GgufFile::FindStrings(std::string_view key) const {
  if (FindEntry(key) == nullptr) return std::nullopt;
  return GetStrings(key);
}

const GgufTensor& GgufFile::Tensor(std::string_view name) const {
  const GgufTensor* tensor = FindTensor(name);
  if (tensor != nullptr) return *tensor;
  const GgufEntry* parts = FindEntry("split.count");
  const bool split = parts != nullptr && IsInteger(parts->type) &&
                     IntegerAt(parts->type, parts->value, 0).value_or(2) > 1;
  throw UsageError(StrCat(path(), ": tensor ", QuotedName(name), " is missing",
                          split ? "; the file is one part of a split model: join the parts" : ""));
}

const GgufTensor& GgufFile::Tensor(std::string_view name,
                                   std::initializer_list<int64_t> shape) const {
  const GgufTensor& tensor = Tensor(name);
  if (!std::ranges::equal(tensor.shape(), shape)) {
    throw UsageError(StrCat(path(), ": tensor ", QuotedName(name), ": shape ",
                            ShapeText({shape.begin(), shape.size()}), " expected, found ",
                            ShapeText(tensor.shape())));
  }
  return tensor;
}

void GgufFile::Drop(std::span<const std::byte> data) const {
  if (mapped_) mapped_->Drop(data.data() - bytes_.data(), static_cast<int64_t>(data.size()));
}

}  // namespace thinwire::io
