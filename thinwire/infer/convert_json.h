// Values of JSON files that others wrote, with their types and bounds checked; for the conversion
// of models.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/io/file.h"

namespace thinwire::infer {

using Json = nlohmann::json;

// The content of a file. Throws UsageError naming it when it is no JSON object, IoError when it
// cannot be read.
Json ReadJsonObject(io::FileSystem& fs, const std::string& path);

// An object of such a file. Null counts as missing. All throw UsageError naming file and key.
class JsonView {
 public:
  // `where` is the file and, within it, the way to the object, which outlives the view.
  JsonView(std::string where, const Json& object);

  const std::string& where() const { return where_; }
  const Json& json() const { return *object_; }
  // Null when it is missing.
  const Json* Find(std::string_view key) const;

  int64_t Integer(std::string_view key, int64_t low, int64_t high) const;
  std::optional<int64_t> FindInteger(std::string_view key, int64_t low, int64_t high) const;
  // Above 0 and finite.
  std::optional<double> FindPositive(std::string_view key) const;
  std::optional<std::string> FindText(std::string_view key) const;
  bool Flag(std::string_view key, bool otherwise) const;
  std::optional<JsonView> FindObject(std::string_view key) const;
  const Json& Array(std::string_view key) const;
  // Fails unless the text, `otherwise` where it is missing, is one of these.
  void RequireText(std::string_view key, std::string_view otherwise,
                   std::initializer_list<std::string_view> known) const;

  [[noreturn]] void Fail(std::string_view key, std::string_view problem) const;

 private:
  std::string where_;
  const Json* object_;
};

}  // namespace thinwire::infer
