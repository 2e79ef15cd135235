#include "thinwire/serve/fields.h"

#include <cmath>
#include <utility>

#include "thinwire/serve/api_error.h"

namespace thinwire::serve {

using nlohmann::json;

std::string KindOf(const json& value) {
  if (value.is_number_float()) return "a number with a fraction";
  if (value.is_object() || value.is_array()) return std::string("an ") + value.type_name();
  return value.is_null() ? "null" : std::string("a ") + value.type_name();
}

Fields::Fields(const json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {
  if (!object.is_object()) {
    const std::string name = prefix_.substr(0, prefix_.find_last_not_of('.') + 1);
    throw ApiError(
        400, name,
        StrCat(name.empty() ? "the body" : name, " must be a JSON object, is ", KindOf(object)));
  }
}

const json* Fields::Find(std::string_view name) {
  known_.emplace(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

double Fields::Number(std::string_view name, double otherwise, double least, double most) {
  const json* const value = Find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) {
    throw BadField(Path(name), StrCat("must be a number, is ", KindOf(*value)));
  }
  const auto number = value->get<double>();
  if (!(number >= least && number <= most)) {
    throw BadField(Path(name), StrCat(number, " is not between ", least, " and ", most));
  }
  return number;
}

int64_t Fields::Integer(std::string_view name, int64_t otherwise, int64_t least, int64_t most) {
  const json* const value = Find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number_integer()) {
    throw BadField(Path(name), StrCat("must be an integer, is ", KindOf(*value)));
  }
  // An unsigned one beyond int64_t would come out negative.
  const bool fits = !value->is_number_unsigned() || std::in_range<int64_t>(value->get<uint64_t>());
  const int64_t number = fits ? value->get<int64_t>() : 0;
  if (!fits || number < least || number > most) {
    throw BadField(Path(name), StrCat(value->dump(), " is not between ", least, " and ", most));
  }
  return number;
}

bool Fields::Bool(std::string_view name, bool otherwise) {
  const json* const value = Find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) {
    throw BadField(Path(name), StrCat("must be true or false, is ", KindOf(*value)));
  }
  return value->get<bool>();
}

std::string Fields::String(std::string_view name, const std::string& otherwise) {
  const json* const value = Find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) {
    throw BadField(Path(name), StrCat("must be a string, is ", KindOf(*value)));
  }
  return value->get<std::string>();
}

void Fields::Ignore(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) known_.emplace(name);
}

void Fields::Only(std::string_view name, std::initializer_list<json> values) {
  const json* const value = Find(name);
  if (value == nullptr) return;
  std::string possible;
  for (const json& one : values) {
    if (*value == one) return;
    possible += (possible.empty() ? "" : " or ") + one.dump();
  }
  throw BadField(Path(name), StrCat("only ", possible, " is possible here"));
}

void Fields::RefuseOthers() const {
  for (const auto& [name, value] : object_.items()) {
    if (!known_.contains(name)) throw BadField(Path(name), "is not a field of this request");
  }
}

}  // namespace thinwire::serve
