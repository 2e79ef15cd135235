// What a JSON Schema says, looked at without making a grammar: keywords, references, what two
// schemas are together, whether they exclude each other.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace thinwire::text {

using Schema = nlohmann::ordered_json;

constexpr int kMostSchemaNesting = 64;

// Types as bits. Every integer is a number.
enum SchemaType : uint32_t {
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,
  kFractionType = 8,
  kNumberType = kIntegerType | kFractionType,
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kAllTypes = 127,
};

// Of a value.
uint32_t TypeOf(const Schema& value);
// What "type" says; all where it is not there. UsageError.
uint32_t TypesOf(const Schema& schema, const std::string& path);
// Of the values that a keyword is about; 0 for one that is about all of them or is not known.
uint32_t TypesOfKeyword(std::string_view keyword);

// A keyword that says nothing of what is accepted.
bool IsAnnotation(std::string_view keyword);
// UsageError naming a keyword that is not known.
void CheckKeywords(const Schema& schema, const std::string& path);

// All keywords but `without` and annotations.
Schema Rest(const Schema& schema, std::string_view without);

[[noreturn]] void FailSchema(const std::string& path, std::string_view what);

// Where "#/a/b" leads to in `root`. UsageError.
const Schema& Resolve(const Schema& root, const std::string& reference, const std::string& path);

// One schema that accepts what both do. UsageError where the keywords are none that can be one.
class SchemaMerger {
 public:
  explicit SchemaMerger(const Schema& root) : root_(root) {}
  Schema Merge(const Schema& a, const Schema& b, const std::string& path, int depth = 0);

 private:
  Schema Expanded(const Schema& schema, const std::string& path, int depth);
  void MergeKeyword(Schema& into, const std::string& keyword, const Schema& value,
                    const std::string& path);

  const Schema& root_;
  int merges_ = 0;
};

// Whether it is plain that no value fits both.
bool Exclude(const Schema& root, const Schema& a, const Schema& b, int depth = 0);

}  // namespace thinwire::text
