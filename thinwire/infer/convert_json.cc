#include "thinwire/infer/convert_json.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::infer {
namespace {

// Of a tokenizer.json; those of the largest vocabularies have 35 MB.
constexpr int64_t kMostBytes = int64_t{1} << 28;

// A value on one line, cut off where it is long.
std::string Shown(const Json& value) {
  if (value.is_structured()) return value.type_name();
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

}  // namespace

Json ReadJsonObject(io::FileSystem& fs, const std::string& path) {
  const std::string text = io::ReadFile(fs, path, kMostBytes);
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    throw UsageError(StrCat(path, ": not JSON: ", error.what()));
  }
  if (!json.is_object()) throw UsageError(StrCat(path, ": a JSON object expected"));
  return json;
}

JsonView::JsonView(std::string where, const Json& object)
    : where_(std::move(where)), object_(&object) {
  if (!object_->is_object()) throw UsageError(StrCat(where_, ": an object expected"));
}

void JsonView::Fail(std::string_view key, std::string_view problem) const {
  throw UsageError(StrCat(where_, ": \"", key, "\": ", problem));
}

const Json* JsonView::Find(std::string_view key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> JsonView::FindInteger(std::string_view key, int64_t low,
                                             int64_t high) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const bool fits = value->is_number_integer() &&
                    !(value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX);
  if (!fits || value->get<int64_t>() < low || value->get<int64_t>() > high) {
    Fail(key, StrCat("an integer from ", low, " to ", high, " expected, found ", Shown(*value)));
  }
  return value->get<int64_t>();
}

int64_t JsonView::Integer(std::string_view key, int64_t low, int64_t high) const {
  const auto value = FindInteger(key, low, high);
  if (!value) Fail(key, "is missing");
  return *value;
}

std::optional<double> JsonView::FindPositive(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() > 0) || !std::isfinite(value->get<double>())) {
    Fail(key, StrCat("a number above 0 expected, found ", Shown(*value)));
  }
  return value->get<double>();
}

std::optional<std::string> JsonView::FindText(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) Fail(key, StrCat("a text expected, found ", Shown(*value)));
  return value->get<std::string>();
}

bool JsonView::Flag(std::string_view key, bool otherwise) const {
  const Json* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) Fail(key, StrCat("true or false expected, found ", Shown(*value)));
  return value->get<bool>();
}

std::optional<JsonView> JsonView::FindObject(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  return JsonView(StrCat(where_, ": \"", key, "\""), *value);
}

const Json& JsonView::Array(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) Fail(key, "is missing");
  if (!value->is_array()) Fail(key, StrCat("an array expected, found ", Shown(*value)));
  return *value;
}

void JsonView::RequireText(std::string_view key, std::string_view otherwise,
                           std::initializer_list<std::string_view> known) const {
  const std::string found = FindText(key).value_or(std::string(otherwise));
  if (std::ranges::find(known, found) != known.end()) return;
  std::string names;
  for (const std::string_view name : known) names += StrCat(names.empty() ? "" : " or ", name);
  Fail(key, StrCat(names, " expected, found ", found));
}

}  // namespace thinwire::infer
