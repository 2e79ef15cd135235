#include "thinwire/text/json_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/text/json_forms.h"
#include "thinwire/text/json_numbers.h"
#include "thinwire/text/json_pattern.h"
#include "thinwire/text/json_schema_parts.h"

namespace thinwire::text {
namespace {

using Node = Grammar::Node;

// A member of an object is found among those before it when a schema is read, so their number is
// bounded by the size.
constexpr size_t kMostSchemaBytes = 128 << 10;
constexpr int kMostValueNesting = 256;
constexpr int kMostSchemas = 1 << 16;  // looked at, as alternatives may multiply

// As expressions: RFC 3339's dates with no day that there is not, RFC 4122, dotted quads, and of
// addresses those that every reader of RFC 5321 takes.
constexpr const char* kDate =
    "([12]\\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|"
    "02-(0[1-9]|1\\d|2[0-8]))|([12]\\d(0[48]|[2468][048]|[13579][26])|(1[26]|2[048])00)-02-29)";
constexpr const char* kTime =
    "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)";
constexpr const char* kUuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
constexpr const char* kQuad = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
constexpr const char* kEmail =
    "[a-z0-9]{1,16}([._+-][a-z0-9]{1,16}){0,2}@[a-z0-9]{1,20}(-[a-z0-9]{1,20})?(\\.[a-z]{2,12}){1,"
    "2}";

std::string FormatPattern(const std::string& format, const std::string& path) {
  std::string pattern;
  if (format == "date") pattern = kDate;
  if (format == "time") pattern = kTime;
  if (format == "date-time") pattern = StrCat(kDate, 'T', kTime);
  if (format == "uuid") pattern = kUuid;
  if (format == "ipv4") pattern = StrCat(kQuad, "(\\.", kQuad, "){3}");
  if (format == "email") pattern = kEmail;
  if (pattern.empty()) FailSchema(path, StrCat('"', format, "\" cannot be followed here"));
  return StrCat("^", pattern, "$");
}

class Reader {
 public:
  explicit Reader(const Schema& root) : root_(root), forms_(grammar_), merger_(root) {}

  Grammar Read() {
    grammar_.SetRoot(RuleOf("#"));
    while (!open_.empty()) {
      const std::string reference = std::move(open_.back());
      open_.pop_back();
      const Node body = Read(Resolve(root_, reference, reference), reference, 0);
      grammar_.Define(rules_.at(reference), body);
    }
    return std::move(grammar_);
  }

 private:
  // What a reference leads to; its body comes when its turn comes.
  int32_t RuleOf(const std::string& reference) {
    const auto [at, added] = rules_.try_emplace(reference, 0);
    if (added) {
      at->second = grammar_.AddRule(reference);
      open_.push_back(reference);
    }
    return at->second;
  }

  Node Read(const Schema& schema, const std::string& path, int depth) {
    if (depth > kMostSchemaNesting) FailSchema(path, "is too deep");
    if (++looked_ > kMostSchemas) FailSchema(path, "the schema has too many alternatives");
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) FailSchema(path, "false accepts no value");
      return forms_.Value();
    }
    if (!schema.is_object()) FailSchema(path, "a schema is an object, true or false");
    CheckKeywords(schema, path);
    if (schema.contains("$ref")) {
      const Schema& reference = schema.at("$ref");
      if (!reference.is_string()) FailSchema(path + "/$ref", "must be a string");
      const auto place = reference.get<std::string>();
      Resolve(root_, place, path + "/$ref");
      const Schema beside = Rest(schema, "$ref");
      if (beside.empty()) return grammar_.Call(RuleOf(place));
      return Read(merger_.Merge(schema, Schema::object(), path), path, depth + 1);
    }
    if (schema.contains("allOf")) {
      return Read(merger_.Merge(schema, Schema::object(), path), path, depth + 1);
    }
    for (const char* const keyword : {"anyOf", "oneOf"}) {
      if (schema.contains(keyword)) return Alternatives(schema, keyword, path, depth);
    }
    if (schema.contains("const") || schema.contains("enum")) return Values(schema, path);
    return Types(schema, path, depth);
  }

  Node Alternatives(const Schema& schema, const std::string& keyword, const std::string& path,
                    int depth) {
    const std::string place = path + "/" + keyword;
    const Schema& list = schema.at(keyword);
    if (!list.is_array() || list.empty()) FailSchema(place, "must be an array that is not empty");
    const Schema beside = Rest(schema, keyword);
    std::vector<Schema> all;
    std::vector<Node> ways;
    for (const Schema& each : list) {
      const std::string here = StrCat(place, "/", all.size());
      all.push_back(beside.empty() ? each : merger_.Merge(beside, each, here));
      // One that accepts nothing adds nothing.
      if (all.back() == false) continue;
      ways.push_back(Read(all.back(), here, depth + 1));
      if (keyword == "anyOf") continue;
      for (size_t i = 0; i + 1 < all.size(); ++i) {
        if (!Exclude(root_, all[i], all.back())) {
          FailSchema(place, StrCat("a value may fit both ", i, " and ", all.size() - 1,
                                   "; where that is no matter it can be anyOf"));
        }
      }
    }
    if (ways.empty()) FailSchema(place, "accepts no value");
    return grammar_.Choice(std::move(ways));
  }

  Node Values(const Schema& schema, const std::string& path) {
    Schema values = Schema::array();
    const char* const keyword = schema.contains("const") ? "const" : "enum";
    const std::string place = path + "/" + keyword;
    if (schema.contains("const")) {
      values.push_back(schema.at("const"));
    } else {
      values = schema.at("enum");
    }
    if (!values.is_array()) FailSchema(place, "must be an array");
    const uint32_t types = TypesOf(schema, path);
    std::vector<Node> ways;
    for (const Schema& value : values) {
      if ((TypeOf(value) & types) == 0) continue;
      const auto all = schema.find("enum");
      if (all != schema.end() && std::ranges::find(*all, value) == all->end()) continue;
      ways.push_back(forms_.Literal(value.dump()));
    }
    for (const auto& [other, value] : schema.items()) {
      if (TypesOfKeyword(other) != 0) FailSchema(path + "/" + other, "beside " + place);
    }
    if (ways.empty()) FailSchema(place, "has no value of the type");
    return grammar_.Choice(std::move(ways));
  }

  Node Types(const Schema& schema, const std::string& path, int depth) {
    uint32_t types = TypesOf(schema, path), about = 0;
    for (const auto& [keyword, value] : schema.items()) {
      const uint32_t of = TypesOfKeyword(keyword);
      if (of != 0 && (of & types) == 0) {
        FailSchema(path + "/" + keyword, "is not about values of this type");
      }
      about |= of;
    }
    // Where no type is said, what is said of some means these.
    if (!schema.contains("type")) types = about;
    if (types == 0) return forms_.Value();
    std::vector<Node> ways;
    if ((types & kNullType) != 0) ways.push_back(grammar_.Literal("null"));
    if ((types & kBooleanType) != 0) {
      ways.push_back(grammar_.Choice({grammar_.Literal("true"), grammar_.Literal("false")}));
    }
    if ((types & kNumberType) != 0) ways.push_back(Number(schema, path, types));
    if ((types & kStringType) != 0) ways.push_back(String(schema, path));
    if ((types & kArrayType) != 0) ways.push_back(Array(schema, path, depth));
    if ((types & kObjectType) != 0) ways.push_back(Object(schema, path, depth));
    if (ways.empty()) FailSchema(path + "/type", "has no types");
    return grammar_.Choice(std::move(ways));
  }

  // A count; `otherwise` where it is not there.
  static int64_t Count(const Schema& schema, const char* keyword, const std::string& path,
                       int64_t otherwise) {
    const auto found = schema.find(keyword);
    if (found == schema.end()) return otherwise;
    const bool whole = found->is_number() && TypeOf(*found) == kIntegerType;
    const double count = whole ? found->get<double>() : -1;
    if (!(count >= 0 && count <= static_cast<double>(Grammar::kMostRepeats))) {
      FailSchema(path + "/" + keyword,
                 StrCat(found->dump(), " is no count from 0 to ", Grammar::kMostRepeats));
    }
    return static_cast<int64_t>(count);
  }

  // The larger of two lower bounds, the smaller of two upper ones (`sign` -1), and whether it
  // itself is outside.
  static std::optional<int64_t> Bound(const Schema& schema, const std::string& path, bool integers,
                                      int sign, bool* outside) {
    std::optional<double> bound;
    for (const char* const keyword : sign > 0 ? std::array{"minimum", "exclusiveMinimum"}
                                              : std::array{"maximum", "exclusiveMaximum"}) {
      const auto found = schema.find(keyword);
      if (found == schema.end()) continue;
      const std::string place = path + "/" + keyword;
      if (!found->is_number()) FailSchema(place, "must be a number");
      const bool open = keyword[0] == 'e';
      auto value = sign * found->get<double>();
      if (integers) {
        value = open ? std::floor(value) + 1 : std::ceil(value);
      } else if (std::floor(value) != value) {
        FailSchema(place, "of numbers that may have a fraction must be whole here");
      }
      if (!(std::abs(value) < static_cast<double>(kMostBound))) FailSchema(place, "is too large");
      if (!bound || value >= *bound) {
        bound = value;
        *outside = open && !integers;
      }
    }
    if (!bound) return std::nullopt;
    return static_cast<int64_t>(sign * *bound);
  }

  Node Number(const Schema& schema, const std::string& path, uint32_t types) {
    const bool integers = (types & kFractionType) == 0;
    Bounds bounds;
    bounds.least = Bound(schema, path, integers, 1, &bounds.above_least);
    bounds.most = Bound(schema, path, integers, -1, &bounds.below_most);
    if (!integers && !bounds.least && !bounds.most) return forms_.Number();
    const Node node =
        integers ? IntegersBetween(grammar_, bounds) : NumbersBetween(grammar_, bounds);
    if (node < 0) FailSchema(path, "no number is between its bounds");
    return node;
  }

  Node String(const Schema& schema, const std::string& path) {
    const auto text = [&](const char* keyword) -> std::optional<std::string> {
      const auto found = schema.find(keyword);
      if (found == schema.end()) return std::nullopt;
      if (!found->is_string()) FailSchema(path + "/" + keyword, "must be a string");
      return found->get<std::string>();
    };
    const std::optional<std::string> pattern = text("pattern"), format = text("format");
    if (!pattern && !format) {
      const int64_t least = Count(schema, "minLength", path, 0);
      const int64_t most = Count(schema, "maxLength", path, Grammar::kNoLimit);
      if (most >= 0 && most < least) FailSchema(path + "/maxLength", "is less than minLength");
      return forms_.String(least, most);
    }
    const char* const of = pattern ? "pattern" : "format";
    for (const char* const other : {"format", "minLength", "maxLength"}) {
      if (other != of && std::string_view(other) != of && schema.contains(other)) {
        FailSchema(path + "/" + other, StrCat("together with ", of, " cannot be followed here"));
      }
    }
    const std::string place = path + "/" + of;
    return forms_.Quoted(PatternContent(grammar_, forms_,
                                        pattern ? *pattern : FormatPattern(*format, place), place));
  }

  Node Array(const Schema& schema, const std::string& path, int depth) {
    JsonForms::Elements elements;
    const int64_t least = Count(schema, "minItems", path, 0);
    const int64_t most = Count(schema, "maxItems", path, Grammar::kNoLimit);
    if (most >= 0 && most < least) FailSchema(path + "/maxItems", "is less than minItems");
    if (const auto first = schema.find("prefixItems"); first != schema.end()) {
      if (!first->is_array()) FailSchema(path + "/prefixItems", "must be an array");
      for (const Schema& each : *first) {
        const auto index = std::ssize(elements.first);
        if (index == most) break;
        elements.first.push_back(Read(each, StrCat(path, "/prefixItems/", index), depth + 1));
      }
    }
    const auto known = std::ssize(elements.first);
    elements.needed = static_cast<size_t>(std::min(least, known));
    elements.least = std::max<int64_t>(least - known, 0);
    elements.most = most < 0 ? Grammar::kNoLimit : most - known;
    const auto items = schema.find("items");
    // As of objects: what is not named comes only where it is asked for.
    const bool no_more = items != schema.end()
                             ? *items == false
                             : schema.contains("prefixItems") && elements.least == 0;
    if (no_more) elements.most = 0;
    if (no_more && elements.least > 0) FailSchema(path + "/minItems", "is more than there can be");
    if (elements.most != 0) {
      elements.rest =
          items == schema.end() ? forms_.Value() : Read(*items, path + "/items", depth + 1);
    }
    return forms_.Array(elements);
  }

  Node Object(const Schema& schema, const std::string& path, int depth) {
    std::set<std::string> needed, names;
    if (const auto list = schema.find("required"); list != schema.end()) {
      if (!list->is_array()) FailSchema(path + "/required", "must be an array");
      for (const Schema& name : *list) {
        if (!name.is_string()) FailSchema(path + "/required", "must hold strings");
        needed.insert(name.get<std::string>());
      }
    }
    std::vector<JsonForms::Member> members;
    const auto add = [&](const std::string& name, Node value) {
      const Node key = forms_.Literal(Schema(name).dump());
      members.push_back({forms_.Pair(key, value), needed.contains(name)});
    };
    const auto properties = schema.find("properties");
    if (properties != schema.end()) {
      if (!properties->is_object()) FailSchema(path + "/properties", "must be an object");
      for (const auto& [name, property] : properties->items()) {
        names.insert(name);
        // One that is never there.
        if (property == false && !needed.contains(name)) continue;
        add(name, Read(property, StrCat(path, "/properties/", name), depth + 1));
      }
    }
    const auto more = schema.find("additionalProperties");
    const bool refused = more != schema.end() && *more == false;
    const auto other = [&] {
      return more == schema.end() ? forms_.Value()
                                  : Read(*more, path + "/additionalProperties", depth + 1);
    };
    for (const std::string& name : needed) {
      if (!names.insert(name).second) continue;
      if (refused)
        FailSchema(path + "/required", StrCat('"', name, "\" is not among the properties"));
      add(name, other());
    }
    Node others = -1;
    const bool named = properties != schema.end();
    if (!refused && (more != schema.end() || !named)) {
      others = forms_.Pair(names.empty() ? forms_.String() : forms_.OtherString(names), other());
    }
    return forms_.ObjectOf(members, others);
  }

  const Schema& root_;
  Grammar grammar_;
  JsonForms forms_;
  SchemaMerger merger_;
  std::map<std::string, int32_t> rules_;
  std::vector<std::string> open_;
  int looked_ = 0;
};

// Without recursion, which everything after this may use.
void CheckDepth(const Schema& schema) {
  std::vector<std::pair<const Schema*, int>> open = {{&schema, 0}};
  while (!open.empty()) {
    const auto [value, depth] = open.back();
    open.pop_back();
    if (depth > kMostValueNesting) FailSchema("#", "is too deep");
    if (!value->is_structured()) continue;
    for (const Schema& each : *value) open.emplace_back(&each, depth + 1);
  }
}

}  // namespace

Grammar GrammarOfSchema(std::string_view schema) {
  if (schema.size() > kMostSchemaBytes) {
    throw UsageError(StrCat("JSON schema: ", schema.size(), " bytes, at most ", kMostSchemaBytes));
  }
  Schema parsed;
  try {
    parsed = Schema::parse(schema);
  } catch (const Schema::exception& error) {
    const std::string_view what = error.what();  // begins with "[json.exception...] "
    const size_t begin = what.find("] ");
    throw UsageError(StrCat("JSON schema: no JSON: ",
                            begin == std::string_view::npos ? what : what.substr(begin + 2)));
  }
  CheckDepth(parsed);
  return Reader(parsed).Read();
}

Grammar GrammarOfJsonObjects() { return GrammarOfSchema(R"({"type": "object"})"); }

}  // namespace thinwire::text
