// The fields of one JSON object from a client: each is read with its type and range, and what
// nobody read is refused.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

namespace thinwire::serve {

class Fields {
 public:
  // ApiError unless `object` is one. It must outlive this; errors say `prefix` before a name.
  explicit Fields(const nlohmann::json& object, std::string prefix = "");

  // nullptr where the field is not there or null.
  const nlohmann::json* Find(std::string_view name);
  // `otherwise` where it is not there. ApiError for another type or a value out of range.
  double Number(std::string_view name, double otherwise, double least, double most);
  int64_t Integer(std::string_view name, int64_t otherwise, int64_t least, int64_t most);
  bool Bool(std::string_view name, bool otherwise);
  std::string String(std::string_view name, const std::string& otherwise);

  // Fields that change nothing here.
  void Ignore(std::initializer_list<std::string_view> names);
  // ApiError unless the field is not there, or one of these values.
  void Only(std::string_view name, std::initializer_list<nlohmann::json> values);
  // ApiError where there is a field that none of the above was told of.
  void RefuseOthers() const;

  const nlohmann::json& object() const { return object_; }
  std::string Path(std::string_view name) const { return prefix_ + std::string(name); }

 private:
  const nlohmann::json& object_;
  const std::string prefix_;
  std::set<std::string, std::less<>> known_;
};

// "a string", "a number", ...
std::string KindOf(const nlohmann::json& value);

}  // namespace thinwire::serve
