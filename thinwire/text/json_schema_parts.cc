#include "thinwire/text/json_schema_parts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/text/grammar.h"

namespace thinwire::text {
namespace {

// Each copies two schemas.
constexpr int kMostMerges = 1000;

// How deep two schemas are compared; each step may look at all pairs of members.
constexpr int kMostLooks = 3;

struct Keyword {
  std::string_view name;
  uint32_t types;
};

constexpr std::array<Keyword, 22> kKeywords = {{
    {"type", 0},
    {"enum", 0},
    {"const", 0},
    {"$ref", 0},
    {"anyOf", 0},
    {"oneOf", 0},
    {"allOf", 0},
    {"properties", kObjectType},
    {"required", kObjectType},
    {"additionalProperties", kObjectType},
    {"items", kArrayType},
    {"prefixItems", kArrayType},
    {"minItems", kArrayType},
    {"maxItems", kArrayType},
    {"minLength", kStringType},
    {"maxLength", kStringType},
    {"pattern", kStringType},
    {"format", kStringType},
    {"minimum", kNumberType},
    {"maximum", kNumberType},
    {"exclusiveMinimum", kNumberType},
    {"exclusiveMaximum", kNumberType},
}};

// "$id" and "$schema" say what a schema is called, and there is no other one that could ask.
constexpr std::array<std::string_view, 13> kAnnotations = {
    "discriminator", "title",     "description", "default", "examples", "$comment",   "deprecated",
    "readOnly",      "writeOnly", "$schema",     "$id",     "$defs",    "definitions"};

constexpr std::array<std::pair<std::string_view, uint32_t>, 7> kTypes = {{{"null", kNullType},
                                                                          {"boolean", kBooleanType},
                                                                          {"integer", kIntegerType},
                                                                          {"number", kNumberType},
                                                                          {"string", kStringType},
                                                                          {"array", kArrayType},
                                                                          {"object", kObjectType}}};

uint32_t TypeNamed(const Schema& name, const std::string& path) {
  if (name.is_string()) {
    for (const auto& [known, type] : kTypes) {
      if (name.get_ref<const std::string&>() == known) return type;
    }
  }
  FailSchema(path + "/type", StrCat(name.dump(), " is no type of JSON"));
}

Schema TypeNames(uint32_t types) {
  Schema names = Schema::array();
  for (const auto& [name, type] : kTypes) {
    // A number is an integer too.
    const bool all = (types & type) == type;
    if (all && !(type == kIntegerType && (types & kFractionType) != 0)) names.push_back(name);
  }
  return names;
}

bool Has(const Schema& list, const Schema& value) {
  return std::ranges::find(list, value) != list.end();
}

// The values that "enum" or "const" leave; null where there is neither.
Schema ValuesOf(const Schema& schema) {
  if (schema.contains("const")) return Schema::array({schema.at("const")});
  if (schema.contains("enum") && schema.at("enum").is_array()) return schema.at("enum");
  return nullptr;
}

// Follows "$ref" as long as it is all there is.
const Schema& Target(const Schema& root, const Schema& schema) {
  const Schema* at = &schema;
  for (int i = 0; i < kMostSchemaNesting && at->is_object() && at->contains("$ref") &&
                  at->at("$ref").is_string();
       ++i) {
    at = &Resolve(root, at->at("$ref").get<std::string>(), "$ref");
  }
  return *at;
}

}  // namespace

void FailSchema(const std::string& path, std::string_view what) {
  throw UsageError(StrCat("JSON schema: ", Printable(path), ": ", Printable(what)));
}

uint32_t TypeOf(const Schema& value) {
  switch (value.type()) {
    case Schema::value_t::null:
      return kNullType;
    case Schema::value_t::boolean:
      return kBooleanType;
    case Schema::value_t::string:
      return kStringType;
    case Schema::value_t::array:
      return kArrayType;
    case Schema::value_t::object:
      return kObjectType;
    case Schema::value_t::number_float: {
      const auto number = value.get<double>();
      return std::floor(number) == number ? kIntegerType : kFractionType;
    }
    default:
      return kIntegerType;
  }
}

uint32_t TypesOf(const Schema& schema, const std::string& path) {
  const auto type = schema.find("type");
  if (type == schema.end()) return kAllTypes;
  if (!type->is_array()) return TypeNamed(*type, path);
  uint32_t types = 0;
  for (const Schema& one : *type) types |= TypeNamed(one, path);
  return types;
}

uint32_t TypesOfKeyword(std::string_view keyword) {
  const auto* const found = std::ranges::find(kKeywords, keyword, &Keyword::name);
  return found == kKeywords.end() ? 0 : found->types;
}

bool IsAnnotation(std::string_view keyword) {
  return std::ranges::find(kAnnotations, keyword) != kAnnotations.end();
}

void CheckKeywords(const Schema& schema, const std::string& path) {
  for (const auto& [keyword, value] : schema.items()) {
    const bool known = std::ranges::find(kKeywords, keyword, &Keyword::name) != kKeywords.end();
    // Below the root it changes what references are relative to.
    const bool moves = keyword == "$id" && path != "#";
    if (moves || (!known && !IsAnnotation(keyword))) {
      FailSchema(path + "/" + keyword, "this keyword cannot be followed here");
    }
  }
}

Schema Rest(const Schema& schema, std::string_view without) {
  Schema rest = Schema::object();
  for (const auto& [keyword, value] : schema.items()) {
    if (keyword != without && !IsAnnotation(keyword)) rest[keyword] = value;
  }
  return rest;
}

const Schema& Resolve(const Schema& root, const std::string& reference, const std::string& path) {
  const auto fail = [&](std::string_view what) {
    FailSchema(path, StrCat('"', reference, "\" ", what));
  };
  if (!reference.starts_with('#')) fail("leads out of this schema");
  if (reference.size() > 1 && reference[1] != '/') fail("is no place in this schema");
  const Schema* at = &root;
  for (size_t begin = 2; begin <= reference.size();) {
    const size_t end = std::min(reference.find('/', begin), reference.size());
    std::string name = reference.substr(begin, end - begin);
    begin = end + 1;
    for (size_t i = 0; (i = name.find('%', i)) != std::string::npos && i + 2 < name.size(); ++i) {
      uint8_t byte = 0;
      const char* const digits = name.data() + i + 1;
      if (std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) continue;
      name.replace(i, 3, 1, static_cast<char>(byte));
    }
    for (const auto& [from, to] : {std::pair("~1", "/"), {"~0", "~"}}) {
      for (size_t i = 0; (i = name.find(from, i)) != std::string::npos; ++i) {
        name.replace(i, 2, to);
      }
    }
    const bool number = !name.empty() && name.size() < 7 &&
                        name.find_first_not_of("0123456789") == std::string::npos;
    if (at->is_object() && at->contains(name)) {
      at = &at->at(name);
    } else if (at->is_array() && number && std::stoul(name) < at->size()) {
      at = &at->at(std::stoul(name));
    } else {
      fail("is no place in this schema");
    }
  }
  return *at;
}

// With its references and allOf put into it.
Schema SchemaMerger::Expanded(const Schema& schema, const std::string& path, int depth) {
  if (depth > kMostSchemaNesting) {
    FailSchema(path, "is too deep, or refers to itself with more beside the reference");
  }
  if (!schema.is_object()) return schema;
  CheckKeywords(schema, path);
  if (schema.contains("$ref")) {
    if (!schema.at("$ref").is_string()) FailSchema(path + "/$ref", "must be a string");
    const auto reference = schema.at("$ref").get<std::string>();
    return Merge(Resolve(root_, reference, path + "/$ref"), Rest(schema, "$ref"), path, depth + 1);
  }
  if (schema.contains("allOf")) {
    Schema all = Rest(schema, "allOf");
    if (!schema.at("allOf").is_array()) FailSchema(path + "/allOf", "must be an array");
    for (const Schema& one : schema.at("allOf")) all = Merge(all, one, path + "/allOf", depth + 1);
    return all;
  }
  return Rest(schema, "");
}

Schema SchemaMerger::Merge(const Schema& a, const Schema& b, const std::string& path, int depth) {
  if (++merges_ > kMostMerges) FailSchema(path, "too many schemas are to be one");
  Schema first = Expanded(a, path, depth), second = Expanded(b, path, depth);
  for (Schema* const each : {&first, &second}) {
    if (each->is_boolean() && !each->get<bool>()) return false;
    if (each->is_boolean()) *each = Schema::object();
    if (!each->is_object()) FailSchema(path, "a schema is an object, true or false");
  }
  if (first.empty()) return second;
  const auto names = [](const Schema& schema) {
    const auto found = schema.find("properties");
    return found == schema.end() ? Schema::object() : *found;
  };
  // What one of them says of members that it does not name is about those of the other.
  for (const auto& [one, other] : {std::pair(&first, &second), {&second, &first}}) {
    const auto more = one->find("additionalProperties");
    if (more == one->end() || *more == true) continue;
    const Schema known = names(*one), theirs = names(*other);
    for (const auto& [name, value] : theirs.items()) {
      if (!known.contains(name)) {
        FailSchema(path + "/additionalProperties",
                   StrCat("and \"", name, "\" of another schema that is to be one with it"));
      }
    }
  }
  // "items" is about those behind "prefixItems", and about all where there are none.
  if (first.contains("prefixItems") != second.contains("prefixItems") &&
      (first.contains("items") || second.contains("items"))) {
    FailSchema(path + "/items", "and prefixItems of another schema that is to be one with it");
  }
  for (const auto& [keyword, value] : second.items()) MergeKeyword(first, keyword, value, path);
  return first;
}

void SchemaMerger::MergeKeyword(Schema& into, const std::string& keyword, const Schema& value,
                                const std::string& path) {
  const auto found = into.find(keyword);
  if (found == into.end()) {
    into[keyword] = value;
    return;
  }
  if (*found == value) return;
  const bool numbers = found->is_number() && value.is_number();
  if (keyword == "type") {
    const uint32_t types = TypesOf(into, path) & TypesOf({{"type", value}}, path);
    if (types == 0) FailSchema(path + "/type", "no type is left");
    *found = TypeNames(types);
  } else if (keyword == "enum" && found->is_array()) {
    Schema both = Schema::array();
    for (const Schema& one : *found) {
      if (Has(value, one)) both.push_back(one);
    }
    *found = std::move(both);
  } else if (keyword == "required" && found->is_array()) {
    for (const Schema& name : value) {
      if (!Has(*found, name)) found->push_back(name);
    }
  } else if (keyword == "properties" && found->is_object()) {
    for (const auto& [name, property] : value.items()) {
      Schema& mine = (*found)[name];
      mine = mine.is_null() ? property : Schema{{"allOf", Schema::array({mine, property})}};
    }
  } else if (keyword == "items" && !into.contains("prefixItems")) {
    *found = Schema{{"allOf", Schema::array({*found, value})}};
  } else if (numbers && (keyword.starts_with("min") || keyword == "exclusiveMinimum")) {
    *found = std::max(found->get<double>(), value.get<double>());
  } else if (numbers && (keyword.starts_with("max") || keyword == "exclusiveMaximum")) {
    *found = std::min(found->get<double>(), value.get<double>());
  } else {
    FailSchema(path + "/" + keyword, "is there twice in schemas that are to be one");
  }
}

bool Exclude(const Schema& root, const Schema& a, const Schema& b, int depth) {
  const Schema& first = Target(root, a);
  const Schema& second = Target(root, b);
  if (!first.is_object() || !second.is_object() || depth > kMostLooks) return false;
  const std::string path = "oneOf";
  if ((TypesOf(first, path) & TypesOf(second, path)) == 0) return true;
  const Schema values = ValuesOf(first), others = ValuesOf(second);
  if (values.is_array()) {
    if (others.is_array()) {
      // Equal objects may have their members in another order.
      return std::ranges::none_of(
          values, [&](const Schema& value) { return value.is_structured() || Has(others, value); });
    }
    return std::ranges::all_of(
        values, [&](const Schema& value) { return (TypeOf(value) & TypesOf(second, path)) == 0; });
  }
  if (others.is_array()) return Exclude(root, second, first, depth + 1);
  if (!first.contains("properties") || !second.contains("properties")) return false;
  const auto needs = [](const Schema& schema, const std::string& name) {
    return schema.contains("required") && Has(schema.at("required"), name);
  };
  // Both are about objects, or the types would not be known to be.
  if (((TypesOf(first, path) | TypesOf(second, path)) & ~kObjectType) != 0) return false;
  for (const auto& [name, property] : first.at("properties").items()) {
    const auto other = second.at("properties").find(name);
    if (other != second.at("properties").end() && needs(first, name) && needs(second, name) &&
        Exclude(root, property, *other, depth + 1)) {
      return true;
    }
  }
  return false;
}

}  // namespace thinwire::text
