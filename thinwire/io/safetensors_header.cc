#include "thinwire/io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "thinwire/base/checked.h"
#include "thinwire/base/error.h"

namespace thinwire::io {
namespace {

using Json = nlohmann::json;

struct TypeEntry {
  std::string_view name;
  int64_t size;
};
constexpr std::array<TypeEntry, 15> kTypes{{{"BOOL", 1},
                                            {"U8", 1},
                                            {"I8", 1},
                                            {"F8_E5M2", 1},
                                            {"F8_E4M3", 1},
                                            {"I16", 2},
                                            {"U16", 2},
                                            {"F16", 2},
                                            {"BF16", 2},
                                            {"I32", 4},
                                            {"U32", 4},
                                            {"F32", 4},
                                            {"F64", 8},
                                            {"I64", 8},
                                            {"U64", 8}}};

// Names come from the file: on one line and without control characters.
std::string Quoted(std::string_view text) {
  constexpr size_t kShown = 200;
  return Json(text.substr(0, kShown))
      .dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

// Receives the JSON as events and accepts only the grammar of a header. A tree would let a file of
// 100 MB ask for gigabytes, and would drop keys that are used twice.
class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderEvents(const std::string& file) : file_(file) {}

  SafetensorsHeader Take() { return std::move(header_); }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_integer(int64_t value) override { return Unexpected(StrCat("the number ", value)); }
  bool number_float(double, const std::string& text) override {
    return Unexpected(StrCat("the number ", text));
  }
  bool binary(nlohmann::json::binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(uint64_t value) override {
    if (state_ != State::kShape && state_ != State::kOffsets) {
      return Unexpected(StrCat("the number ", value));
    }
    if (value > static_cast<uint64_t>(INT64_MAX)) Fail(StrCat(value, " does not fit 63 bits"));
    const int64_t number = static_cast<int64_t>(value);
    if (state_ == State::kShape) {
      tensor_.shape.push_back(number);
    } else {
      if (offsets_ == 2) Fail("data_offsets holds more than two numbers");
      (offsets_ == 0 ? tensor_.begin : end_) = number;
      ++offsets_;
    }
    return true;
  }

  bool string(std::string& text) override {
    if (state_ == State::kMetadata) {
      header_.metadata[key_] = std::move(text);
      return true;
    }
    if (state_ != State::kTensor || key_ != "dtype") return Unexpected("a text");
    const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                     [&](const TypeEntry& entry) { return entry.name == text; });
    if (found == kTypes.end()) Fail(StrCat("unknown dtype ", Quoted(text)));
    tensor_.type = static_cast<TensorType>(found - kTypes.begin());
    return true;
  }

  bool key(std::string& name) override {
    if (state_ == State::kRoot) tensor_.name = name;
    if (!(state_ == State::kRoot ? names_ : members_).insert(name).second) {
      Fail(StrCat("the key ", Quoted(name), " is used twice"));
    }
    key_ = std::move(name);
    return true;
  }

  bool start_object(size_t) override {
    if (state_ == State::kBefore) {
      state_ = State::kRoot;
    } else if (state_ == State::kRoot) {
      members_.clear();
      if (key_ == "__metadata__") {
        state_ = State::kMetadata;
      } else {
        state_ = State::kTensor;
        tensor_.shape.clear();
        offsets_ = 0;
      }
    } else {
      return Unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::kTensor) EndTensor();
    state_ = state_ == State::kRoot ? State::kAfter : State::kRoot;
    return true;
  }

  bool start_array(size_t) override {
    if (state_ != State::kTensor || (key_ != "shape" && key_ != "data_offsets")) {
      return Unexpected("a list");
    }
    state_ = key_ == "shape" ? State::kShape : State::kOffsets;
    return true;
  }

  bool end_array() override {
    state_ = State::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    // nlohmann's text begins with "[json.exception.parse_error.101] "
    const std::string_view what = error.what();
    throw UsageError(StrCat(file_, ": the header is not valid JSON near its byte ", position, ": ",
                            what.substr(std::min(what.find("] ") + 2, what.size()), 200)));
  }

 private:
  enum class State : uint8_t { kBefore, kRoot, kMetadata, kTensor, kShape, kOffsets, kAfter };

  [[noreturn]] void Fail(const std::string& what) const {
    const bool in_tensor = state_ >= State::kTensor && state_ != State::kAfter;
    throw UsageError(in_tensor ? StrCat(file_, ": tensor ", Quoted(tensor_.name), ": ", what)
                               : StrCat(file_, ": header: ", what));
  }

  bool Unexpected(const std::string& found) const {
    switch (state_) {
      case State::kBefore:
      case State::kAfter:
        Fail(StrCat("an object expected, found ", found));
      case State::kRoot:
        Fail(StrCat(Quoted(key_), ": an object expected, found ", found));
      case State::kMetadata:
        Fail(StrCat("__metadata__ ", Quoted(key_), ": a text expected, found ", found));
      case State::kTensor:
        Fail(StrCat("unexpected member ", Quoted(key_), " with ", found));
      case State::kShape:
      case State::kOffsets:
        Fail(StrCat(key_, ": integers >= 0 expected, found ", found));
    }
    return false;
  }

  void EndTensor() {
    for (const char* member : {"dtype", "shape", "data_offsets"}) {
      if (members_.count(member) == 0) Fail(StrCat(member, " is missing"));
    }
    if (offsets_ != 2) Fail(StrCat("data_offsets: two numbers expected, found ", offsets_));
    const std::string what = StrCat(file_, ": tensor ", Quoted(tensor_.name), ": shape");
    const int64_t bytes = CheckedMul(CheckedNumel(tensor_.shape, what), SizeOf(tensor_.type), what);
    if (end_ < tensor_.begin || end_ - tensor_.begin != bytes) {
      Fail(StrCat("its shape takes ", bytes, " bytes, but data_offsets are ", tensor_.begin, " to ",
                  end_));
    }
    tensor_.bytes = bytes;
    header_.tensors.push_back(tensor_);
  }

  const std::string& file_;
  SafetensorsHeader header_;
  State state_ = State::kBefore;
  std::set<std::string> names_;    // keys of the root
  std::set<std::string> members_;  // keys of the object in it
  std::string key_;
  TensorInfo tensor_;
  int64_t end_ = 0;
  int offsets_ = 0;
};

void CheckCover(const SafetensorsHeader& header, int64_t data_bytes, const std::string& file) {
  int64_t end = 0;
  for (const TensorInfo& tensor : header.tensors) {
    if (tensor.begin != end) {
      throw UsageError(StrCat(file, ": tensor ", Quoted(tensor.name), " begins at byte ",
                              tensor.begin, " of the data where ", end, " was expected (",
                              tensor.begin < end ? "overlap" : "hole", ")"));
    }
    end = CheckedAdd(end, tensor.bytes, file);
  }
  if (end != data_bytes) {
    throw UsageError(StrCat(file, ": the tensors take ", end, " bytes, but ", data_bytes,
                            " follow the header; the file is cut off or not a safetensors file"));
  }
}

}  // namespace

std::string_view NameOf(TensorType type) { return kTypes[static_cast<size_t>(type)].name; }
int64_t SizeOf(TensorType type) { return kTypes[static_cast<size_t>(type)].size; }

SafetensorsHeader ParseSafetensorsHeader(std::string_view text, int64_t data_bytes,
                                         const std::string& file) {
  if (text.empty() || text.front() != '{') {
    throw UsageError(StrCat(file, ": the header must begin with '{'; not a safetensors file?"));
  }
  // nlohmann takes a zero byte for the end of the input and would not look at what follows.
  if (text.find('\0') != std::string_view::npos) {
    throw UsageError(StrCat(file, ": the header holds a zero byte"));
  }
  HeaderEvents events(file);
  nlohmann::json::sax_parse(text, &events);
  SafetensorsHeader header = events.Take();
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) {
              return std::pair(a.begin, a.bytes) < std::pair(b.begin, b.bytes);
            });
  CheckCover(header, data_bytes, file);
  return header;
}

std::string FormatSafetensorsHeader(const SafetensorsHeader& header, const std::string& file) {
  std::string text = "{";
  try {
    if (!header.metadata.empty()) text += "\"__metadata__\":" + Json(header.metadata).dump();
    for (const TensorInfo& tensor : header.tensors) {
      if (text.size() > 1) text += ',';
      text += Json(tensor.name).dump();
      text +=
          StrCat(":{\"dtype\":\"", NameOf(tensor.type), "\",\"shape\":", Json(tensor.shape).dump(),
                 ",\"data_offsets\":[", tensor.begin, ",", tensor.begin + tensor.bytes, "]}");
    }
  } catch (const Json::type_error&) {
    throw UsageError(StrCat(file, ": a tensor name or metadata is not valid UTF-8"));
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace thinwire::io
