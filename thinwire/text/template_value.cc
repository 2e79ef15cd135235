#include "thinwire/text/template_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/text/utf8.h"

namespace thinwire::text {
namespace {

// Deeper nesting than this is no message; it would end the stack, when it is freed at the latest.
constexpr int kMaxDepth = 200;

void CheckDepth(int depth) {
  if (depth > kMaxDepth) throw TemplateProblem("a value is nested too deeply");
}

int DepthOf(const Value& value) {
  if (const Sequence* sequence = value.Items()) return sequence->depth;
  if (const Dict* dict = value.Mapping()) return dict->depth;
  return 0;
}

// The shortest digits that read back the same, in Python's notation.
std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  const double magnitude = std::fabs(value);
  const bool scientific = magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                    scientific ? std::chars_format::scientific : std::chars_format::fixed)
          .ptr;
  std::string text(buffer.data(), end);
  if (!scientific && text.find('.') == std::string::npos) text += ".0";
  return text;
}

void AppendHex(uint32_t code, int digits, std::string* text) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    text->push_back("0123456789abcdef"[code >> shift & 0xF]);
  }
}

std::string StringRepr(const std::string& text) {
  const bool has_single = text.find('\'') != std::string::npos;
  const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
  std::string repr(1, quote);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      repr += {'\\', c};
    } else if (c == '\n') {
      repr += "\\n";
    } else if (c == '\r') {
      repr += "\\r";
    } else if (c == '\t') {
      repr += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      repr += "\\x";
      AppendHex(byte, 2, &repr);
    } else {
      repr += c;
    }
  }
  return repr + quote;
}

std::string ReprAt(const Value& value, int depth);

std::string SequenceRepr(const Sequence& sequence, int depth) {
  if (sequence.kind == Sequence::Kind::kGenerator) {
    throw TemplateProblem("the result of a filter such as map or select is printed; use |list");
  }
  const bool tuple = sequence.kind == Sequence::Kind::kTuple;
  std::string text = tuple ? "(" : "[";
  for (size_t i = 0; i < sequence.items.size(); ++i) {
    text += (i == 0 ? "" : ", ") + ReprAt(sequence.items[i], depth + 1);
  }
  if (tuple && sequence.items.size() == 1) text += ',';
  return text + (tuple ? ")" : "]");
}

std::string DictRepr(const Dict& dict, int depth) {
  std::string text = "{";
  for (const auto& [key, item] : dict.items) {
    text +=
        (text.size() == 1 ? "" : ", ") + ReprAt(key, depth + 1) + ": " + ReprAt(item, depth + 1);
  }
  return text + "}";
}

std::string ReprAt(const Value& value, int depth) {
  CheckDepth(depth);
  if (value.IsUndefined()) return "Undefined";
  if (value.IsNone()) return "None";
  if (value.IsBool()) return std::get<bool>(value.data()) ? "True" : "False";
  if (value.IsInteger()) return std::to_string(std::get<int64_t>(value.data()));
  if (value.IsFloat()) return FloatText(std::get<double>(value.data()));
  if (const std::string* text = value.String()) return StringRepr(*text);
  if (const Sequence* sequence = value.Items()) return SequenceRepr(*sequence, depth);
  if (const Dict* dict = value.Mapping()) return DictRepr(*dict, depth);
  throw TemplateProblem(StrCat(value.KindName(), " has no text"));
}

template <typename T>
int Sign(const T& a, const T& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

bool BothExact(const Value& a, const Value& b) { return !a.IsFloat() && !b.IsFloat(); }

void AppendJsonString(const std::string& text, bool ensure_ascii, std::string* out) {
  *out += '"';
  for (size_t at = 0; at < text.size();) {
    const uint32_t size = NextUtf8(std::string_view(text).substr(at)).size;
    const uint32_t code = CodePoint(std::string_view(text).substr(at), size);
    constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f";
    const size_t escape = code < 0x80 ? kEscaped.find(text[at]) : std::string_view::npos;
    if (escape != std::string_view::npos) {
      *out += {'\\', "\"\\nrtbf"[escape]};
    } else if (code < 0x20 || (ensure_ascii && code >= 0x7F && code < 0x10000 && code != 0x7F)) {
      *out += "\\u";
      AppendHex(code, 4, out);
    } else if (ensure_ascii && code >= 0x10000) {
      *out += "\\u";
      AppendHex(0xD800 + ((code - 0x10000) >> 10), 4, out);
      *out += "\\u";
      AppendHex(0xDC00 + ((code - 0x10000) & 0x3FF), 4, out);
    } else {
      out->append(text, at, size);
    }
    at += size;
  }
  *out += '"';
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, std::string* out) : style_(style), out_(*out) {}

  void Write(const Value& value, int depth) {
    CheckDepth(depth);
    if (const std::string* text = value.String()) {
      AppendJsonString(*text, style_.ensure_ascii, &out_);
    } else if (value.IsNone()) {
      out_ += "null";
    } else if (value.IsBool()) {
      out_ += Truth(value) ? "true" : "false";
    } else if (value.IsNumber()) {
      out_ += ToText(value);
    } else if (const Sequence* sequence = value.Items()) {
      WriteAll('[', ']', sequence->items.size(), depth,
               [&](size_t i) { Write(sequence->items[i], depth + 1); });
    } else if (const Dict* dict = value.Mapping()) {
      WriteDict(*dict, depth);
    } else {
      throw TemplateProblem(StrCat("tojson of ", value.KindName()));
    }
  }

 private:
  void WriteDict(const Dict& dict, int depth) {
    auto items = dict.items;
    if (style_.sort_keys) {
      std::ranges::stable_sort(
          items, [](const auto& a, const auto& b) { return Compare(a.first, b.first) < 0; });
    }
    WriteAll('{', '}', items.size(), depth, [&](size_t i) {
      AppendJsonString(ToText(items[i].first), style_.ensure_ascii, &out_);
      out_ += style_.key_separator;
      Write(items[i].second, depth + 1);
    });
  }

  template <typename F>
  void WriteAll(char open, char close, size_t count, int depth, F&& write) {
    out_ += open;
    for (size_t i = 0; i < count; ++i) {
      // With an indentation Python's separator ends with its comma.
      if (i > 0) out_ += style_.indent < 0 ? style_.item_separator : ",";
      NewLine(depth + 1);
      write(i);
    }
    if (count > 0) NewLine(depth);
    out_ += close;
  }
  void NewLine(int depth) {
    if (style_.indent < 0) return;
    out_ += '\n';
    out_.append(static_cast<size_t>(style_.indent) * static_cast<size_t>(depth), ' ');
  }

  const JsonStyle& style_;
  std::string& out_;
};

Value FromJsonAt(const nlohmann::ordered_json& json, int depth) {
  CheckDepth(depth);
  if (json.is_null()) return Value();
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) {
    throw TemplateProblem("an integer does not fit 64 bits");
  }
  if (json.is_number_integer()) return Value(json.get<int64_t>());
  if (json.is_number_float()) return Value(json.get<double>());
  if (json.is_string()) {
    std::string text = json.get<std::string>();
    if (ValidUtf8Prefix(text) != text.size()) throw TemplateProblem("a string is no UTF-8");
    return Value(std::move(text));
  }
  if (json.is_array()) {
    Sequence sequence;
    for (const auto& item : json) sequence.items.push_back(FromJsonAt(item, depth + 1));
    return Value(std::move(sequence));
  }
  Dict dict;
  for (const auto& [key, item] : json.items()) {
    dict.items.emplace_back(Value(key), FromJsonAt(item, depth + 1));
  }
  return Value(std::move(dict));
}

}  // namespace

void CheckSize(size_t bytes, size_t items) {
  if (bytes > kMaxValueBytes) throw TemplateProblem("a string is too long");
  if (items > kMaxItems) throw TemplateProblem("a list is too long");
}

const Value* Dict::Find(const Value& key) const {
  for (const auto& [own, value] : items) {
    if (Equal(own, key)) return &value;
  }
  return nullptr;
}

const Value* Dict::Find(std::string_view key) const {
  for (const auto& [own, value] : items) {
    if (own.String() != nullptr && *own.String() == key) return &value;
  }
  return nullptr;
}

void Dict::Set(const Value& key, Value value) {
  for (auto& [own, old] : items) {
    if (Equal(own, key)) {
      old = std::move(value);
      return;
    }
  }
  items.emplace_back(key, std::move(value));
}

Value::Value(Sequence value) {
  for (const Value& item : value.items) value.depth = std::max(value.depth, DepthOf(item) + 1);
  CheckDepth(value.depth);
  data_ = std::make_shared<const Sequence>(std::move(value));
}

Value::Value(Dict value) {
  for (const auto& [key, item] : value.items) {
    value.depth = std::max({value.depth, DepthOf(key) + 1, DepthOf(item) + 1});
  }
  CheckDepth(value.depth);
  data_ = std::make_shared<const Dict>(std::move(value));
}

Value Value::MakeUndefined(std::string reason) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(reason))};
  return value;
}

int64_t Value::Integer(std::string_view what) const {
  if (IsBool()) return std::get<bool>(data_) ? 1 : 0;
  if (IsInteger()) return std::get<int64_t>(data_);
  throw TemplateProblem(StrCat(what, ": expected an integer, found ", KindName()));
}

double Value::Number(std::string_view what) const {
  if (IsFloat()) return std::get<double>(data_);
  if (IsNumber()) return static_cast<double>(Integer(what));
  throw TemplateProblem(StrCat(what, ": expected a number, found ", KindName()));
}

const std::string& Value::Text(std::string_view what) const {
  if (String() != nullptr) return *String();
  if (IsUndefined()) throw TemplateProblem(*std::get<Undefined>(data_).reason);
  throw TemplateProblem(StrCat(what, ": expected a string, found ", KindName()));
}

std::string_view Value::KindName() const {
  static constexpr std::array<std::string_view, 10> kNames = {
      "an undefined value", "None",   "a bool",       "an integer",  "a float",
      "a string",           "a list", "a dictionary", "a namespace", "a function"};
  return kNames[data_.index()];
}

bool Truth(const Value& value) {
  if (value.IsUndefined() || value.IsNone()) return false;
  if (value.IsFloat()) return std::get<double>(value.data()) != 0;
  if (value.IsNumber()) return value.Integer("") != 0;
  if (const std::string* text = value.String()) return !text->empty();
  if (const Sequence* sequence = value.Items()) {
    return sequence->kind == Sequence::Kind::kGenerator || !sequence->items.empty();
  }
  if (const Dict* dict = value.Mapping()) return !dict->items.empty();
  return true;
}

std::string ToText(const Value& value) {
  if (value.IsUndefined()) return "";
  if (const std::string* text = value.String()) return *text;
  return ReprAt(value, 0);
}

std::string Repr(const Value& value) { return ReprAt(value, 0); }

bool Equal(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    return BothExact(a, b) ? a.Integer("") == b.Integer("") : a.Number("") == b.Number("");
  }
  if (a.data().index() != b.data().index()) return false;
  if (a.IsUndefined() || a.IsNone()) return true;
  if (a.String() != nullptr) return *a.String() == *b.String();
  if (const Sequence* left = a.Items()) {
    const Sequence* right = b.Items();
    return left->kind == right->kind && std::ranges::equal(left->items, right->items, Equal);
  }
  if (const Dict* left = a.Mapping()) {
    const Dict* right = b.Mapping();
    if (left->items.size() != right->items.size()) return false;
    return std::ranges::all_of(left->items, [&](const auto& item) {
      const Value* other = right->Find(item.first);
      return other != nullptr && Equal(item.second, *other);
    });
  }
  return a.Space() == b.Space() && a.Function() == b.Function();
}

int Compare(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    return BothExact(a, b) ? Sign(a.Integer(""), b.Integer("")) : Sign(a.Number(""), b.Number(""));
  }
  // Bytes of UTF-8 have the order of code points.
  if (a.String() != nullptr && b.String() != nullptr) return Sign(*a.String(), *b.String());
  const Sequence* left = a.Items();
  const Sequence* right = b.Items();
  if (left == nullptr || right == nullptr || left->kind != right->kind) {
    throw TemplateProblem(StrCat(a.KindName(), " and ", b.KindName(), " have no order"));
  }
  for (size_t i = 0; i < std::min(left->items.size(), right->items.size()); ++i) {
    if (!Equal(left->items[i], right->items[i])) return Compare(left->items[i], right->items[i]);
  }
  return Sign(left->items.size(), right->items.size());
}

std::vector<Value> Iterate(const Value& value) {
  std::vector<Value> items;
  if (value.IsUndefined()) return items;
  if (const Sequence* sequence = value.Items()) return sequence->items;
  if (const Dict* dict = value.Mapping()) {
    for (const auto& item : dict->items) items.push_back(item.first);
    return items;
  }
  const std::string* text = value.String();
  if (text == nullptr) throw TemplateProblem(StrCat(value.KindName(), " is not iterable"));
  for (std::string_view rest = *text; !rest.empty();) {
    const uint32_t size = NextUtf8(rest).size;
    items.emplace_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  return items;
}

int64_t LengthOf(const Value& value) {
  if (value.IsUndefined()) return 0;
  if (const std::string* text = value.String()) {
    return std::ranges::count_if(
        *text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  }
  if (const Sequence* sequence = value.Items();
      sequence != nullptr && sequence->kind != Sequence::Kind::kGenerator) {
    return static_cast<int64_t>(sequence->items.size());
  }
  if (const Dict* dict = value.Mapping()) return static_cast<int64_t>(dict->items.size());
  throw TemplateProblem(StrCat(value.KindName(), " has no length"));
}

Value FromJson(const nlohmann::ordered_json& json) { return FromJsonAt(json, 0); }

std::string ToJson(const Value& value, const JsonStyle& style) {
  std::string text;
  JsonWriter(style, &text).Write(value, 0);
  return text;
}

}  // namespace thinwire::text
