#include "apps/inspect_gguf.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iomanip>
#include <map>
#include <ostream>
#include <sstream>

#include "apps/machine.h"
#include "apps/table.h"
#include "thinwire/base/error.h"
#include "thinwire/io/gguf.h"

namespace thinwire::app {
namespace {

constexpr size_t kShownElements = 6;
constexpr size_t kShownBytes = 120;  // of a string

std::string Shortened(std::string_view text) {
  if (text.size() <= kShownBytes) return StrCat('"', Safe(text), '"');
  size_t cut = kShownBytes;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) --cut;
  return StrCat('"', Safe(text.substr(0, cut)), "\" and ", text.size() - cut, " bytes more");
}

template <typename T>
std::string Digits(T value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

// The first elements of an entry; of a value, which is one element, all.
template <typename T>
std::vector<std::string> Elements(const io::GgufEntry& entry) {
  const io::GgufArray<T> values(entry.value);
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(values.size(), kShownElements); ++i) {
    if constexpr (std::same_as<T, bool>) {
      texts.push_back(values[i] ? "true" : "false");
    } else {
      texts.push_back(Digits(values[i]));
    }
  }
  return texts;
}

std::vector<std::string> StringElements(const io::GgufFile& file, const io::GgufEntry& entry) {
  if (entry.type == io::GgufType::kString) {
    return {Shortened(file.Get<std::string_view>(entry.key))};
  }
  std::vector<std::string> texts;
  for (const std::string_view text : file.GetStrings(entry.key)) {
    if (texts.size() == kShownElements) break;
    texts.push_back(Shortened(text));
  }
  return texts;
}

std::vector<std::string> ElementsOf(const io::GgufFile& file, const io::GgufEntry& entry) {
  switch (entry.element) {
    case io::GgufType::kU8:
      return Elements<uint8_t>(entry);
    case io::GgufType::kI8:
      return Elements<int8_t>(entry);
    case io::GgufType::kU16:
      return Elements<uint16_t>(entry);
    case io::GgufType::kI16:
      return Elements<int16_t>(entry);
    case io::GgufType::kU32:
      return Elements<uint32_t>(entry);
    case io::GgufType::kI32:
      return Elements<int32_t>(entry);
    case io::GgufType::kF32:
      return Elements<float>(entry);
    case io::GgufType::kBool:
      return Elements<bool>(entry);
    case io::GgufType::kString:
      return StringElements(file, entry);
    case io::GgufType::kU64:
      return Elements<uint64_t>(entry);
    case io::GgufType::kI64:
      return Elements<int64_t>(entry);
    case io::GgufType::kF64:
      return Elements<double>(entry);
    case io::GgufType::kArray:
      break;  // no element of one that was read
  }
  return {};
}

std::string ValueText(const io::GgufFile& file, const io::GgufEntry& entry) {
  std::string text;
  for (const std::string& element : ElementsOf(file, entry)) {
    text += StrCat(text.empty() ? "" : ", ", element);
  }
  if (entry.type != io::GgufType::kArray) return text;
  const bool all = entry.count <= static_cast<int64_t>(kShownElements);
  return StrCat('[', text, all ? "]" : ", ...]");
}

std::string ShapeText(const io::GgufTensor& tensor) {
  std::string text;
  for (const int64_t extent : tensor.shape()) text += StrCat(text.empty() ? "" : ",", extent);
  return StrCat('[', text, ']');
}

struct Amount {
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
};

std::vector<Row> TypeRows(const io::GgufFile& file) {
  std::map<WeightType, Amount> amounts;
  for (const io::GgufTensor& tensor : file.tensors()) {
    Amount& amount = amounts[tensor.type];
    ++amount.tensors;
    amount.elements += tensor.elements();
    amount.bytes += static_cast<int64_t>(tensor.data.size());
  }
  std::vector<Row> rows;
  for (const auto& [type, amount] : amounts) {
    std::ostringstream bits;
    bits << std::setprecision(4)
         << 8 * static_cast<double>(amount.bytes) / static_cast<double>(amount.elements)
         << " bits per element";
    rows.push_back({std::string(NameOf(type)),
                    StrCat(amount.tensors, amount.tensors == 1 ? " tensor" : " tensors"),
                    StrCat(amount.elements, " elements"), HumanBytes(amount.bytes), bits.str()});
  }
  return rows;
}

}  // namespace

void InspectGguf(const std::string& path, std::ostream& out) {
  const io::GgufFile file(path);
  int64_t elements = 0;  // at most four to a byte and no byte in two tensors: no overflow
  std::vector<Row> tensors, entries;
  for (const io::GgufTensor& tensor : file.tensors()) {
    elements += tensor.elements();
    tensors.push_back({Safe(tensor.name), std::string(NameOf(tensor.type)), ShapeText(tensor),
                       HumanBytes(static_cast<int64_t>(tensor.data.size()))});
  }
  for (const io::GgufEntry& entry : file.entries()) {
    entries.push_back({Safe(entry.key), Describe(entry), ValueText(file, entry)});
  }
  out << path << ": GGUF version " << file.version() << ", " << entries.size() << " keys, "
      << tensors.size() << " tensors, " << elements << " elements, " << HumanBytes(file.bytes())
      << ", data aligned to " << file.alignment() << " bytes\nmetadata\n";
  PrintTable(entries, out);
  out << "types\n";
  PrintTable(TypeRows(file), out);
  out << "tensors\n";
  PrintTable(tensors, out);
}

}  // namespace thinwire::app
