#include "thinwire/text/json_schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/text/grammar_automaton.h"

namespace thinwire::text {
namespace {

using Json = nlohmann::json;

class Texts {
 public:
  explicit Texts(std::string_view schema)
      : automaton_(std::make_shared<GrammarProgram>(CompileGrammar(GrammarOfSchema(schema)))) {}

  bool Has(std::string_view text) {
    auto state = automaton_.start();
    for (const char c : text) state = automaton_.Next(state, static_cast<uint8_t>(c));
    return automaton_.Complete(state);
  }

  // A walk at random, which prefers what ends soon once it is long; empty where it got too long.
  std::string Random(std::mt19937& random) {
    std::string text;
    auto state = automaton_.start();
    while (!automaton_.Ended(state) && text.size() < 2000) {
      if (automaton_.Complete(state) && random() % 2 == 0) break;
      std::string bytes;
      for (int byte = 0; byte < 256; ++byte) {
        const bool dull = byte == ' ' || byte == '\t' || byte == '\n' || byte == '\\';
        if (automaton_.Next(state, static_cast<uint8_t>(byte)) == GrammarAutomaton::kDead) continue;
        bytes.append(dull ? 1 : 4, static_cast<char>(byte));
        const bool closes =
            std::string_view("\"]}").find(static_cast<char>(byte)) != std::string_view::npos;
        if (closes) bytes.append(text.size() > 60 ? 3000 : 60, static_cast<char>(byte));
      }
      text += bytes[random() % bytes.size()];
      state = automaton_.Next(state, static_cast<uint8_t>(text.back()));
    }
    return automaton_.Complete(state) ? text : "";
  }

 private:
  GrammarAutomaton automaton_;
};

std::string ErrorOf(std::string_view schema) {
  try {
    Texts texts(schema);
    return "-";
  } catch (const UsageError& error) {
    return error.what();
  }
}

void Expect(std::string_view schema, const std::vector<std::string>& right,
            const std::vector<std::string>& wrong) {
  Texts texts(schema);
  for (const std::string& text : right) EXPECT_TRUE(texts.Has(text)) << schema << "\n" << text;
  for (const std::string& text : wrong) EXPECT_FALSE(texts.Has(text)) << schema << "\n" << text;
}

TEST(JsonSchema, Types) {
  Expect("{}", {"1", "null", "{}", "[]", "[1, [true, {\"a\": \"b\"}]]", "\"x\""},
         {"", "x", "{1:2}"});
  Expect(R"({"type": "string"})", {R"("")", R"("aé\n\u00e9\/")", R"("\ud83d\ude00")"},
         {R"("\ud83d")", R"("\ude00")", "\"\n\"", R"("\x")", "1", R"("a)"});
  Expect(R"({"type": ["integer", "null"]})", {"0", "-7", "null"}, {"01", "1.5", "true", "+1"});
  Expect(R"({"type": "number"})", {"0", "-7.25", "1e9", "1E-10"},
         {"01", ".5", "1.", "1e999", "NaN"});
  Expect(R"({"type": "boolean"})", {"true", "false"}, {"null", "True"});
  Expect("true", {"{}"}, {"{"});
}

TEST(JsonSchema, Objects) {
  const char* const schema = R"({"type": "object", "properties": {"a": {"type": "null"},
      "b": {"type": "null"}, "c": {"type": "null"}, "d": {"type": "null"}}, "required": ["c"]})";
  // All subsets in order: right where c is among them.
  for (int subset = 0; subset < 16; ++subset) {
    std::string text = "{";
    for (int i = 0; i < 4; ++i) {
      if ((subset >> i & 1) == 0) continue;
      text +=
          std::string(text.size() > 1 ? ", " : "") + "\"" + static_cast<char>('a' + i) + "\": null";
    }
    (subset & 4) != 0 ? Expect(schema, {text + "}"}, {text}) : Expect(schema, {}, {text + "}"});
  }
  Expect(schema, {"{\n  \"c\": null\n}"},
         {R"({"c": null, "a": null})", R"({"c": null, "c": null})", R"({"c": null, "e": null})",
          R"({"c": null,})", R"({, "c": null})"});
  Expect(R"({"properties": {"a": true, "b": true}})", {"{}", R"({"b":1})", R"({"a":1,"b":2})"},
         {R"({"x":1})", "[]"});
  Expect(
      R"({"properties": {"abc": true}, "required": ["q"], "additionalProperties": {"type": "null"}})",
      {R"({"q":null})", R"({"abc":1,"q":null,"ab":null,"abcd":null,"":null,"abx":null})"},
      {R"({"q":1})", R"({"q":null,"abc":null})", R"({"q":null,"q":null})",
       R"({"q":null,"\u0061bc":null})"});
  Expect(R"({"type": "object", "additionalProperties": {"type": "integer"}})",
         {"{}", R"({"x":1,"y":2})"}, {R"({"x":"y"})"});
  Expect(R"({"type": "object", "additionalProperties": false})", {"{}", "{ }"}, {R"({"x":1})"});
  Expect(R"({"properties": {"a": false, "b": {}}})", {R"({"b":0})"}, {R"({"a":0})"});
  Expect(R"({"properties": {"q\"\\\né": {"const": 1}}})", {R"({"q\"\\\né":1})"}, {R"({"q":1})"});
}

TEST(JsonSchema, Arrays) {
  Expect(R"({"type": "array"})", {"[]", "[1, \"a\", null]"}, {"[1,]", "[,]"});
  Expect(R"({"items": {"const": 1}, "minItems": 2, "maxItems": 3})", {"[1,1]", "[1, 1, 1]"},
         {"[]", "[1]", "[1,1,1,1]", "[1,2]"});
  Expect(R"({"items": {"const": 1}, "maxItems": 1})", {"[]", "[1]"}, {"[1,1]"});
  Expect(R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"});
  Expect(R"({"prefixItems": [{"const": 1}, {"const": 2}]})", {"[]", "[1]", "[1,2]"},
         {"[2]", "[1,2,3]"});
  Expect(R"({"prefixItems": [{"const": 1}, {"const": 2}], "minItems": 2, "items": false})",
         {"[1,2]"}, {"[]", "[1]", "[1,2,3]"});
  Expect(
      R"({"prefixItems": [{"const": 1}, {"const": 2}], "minItems": 1, "maxItems": 4, "items": {"const": 3}})",
      {"[1]", "[1,2]", "[1,2,3]", "[1,2,3,3]"}, {"[]", "[1,3]", "[1,2,3,3,3]", "[1,2,2]"});
  Expect(R"({"prefixItems": [{"const": 1}], "minItems": 3})", {"[1,{},[]]"},
         {"[1]", "[1,2]", "[2,1,1]"});
}

TEST(JsonSchema, Strings) {
  Expect(R"({"type": "string", "minLength": 2, "maxLength": 3})",
         {R"("ab")", R"("é😀a")", R"("\n\u0041\ud83d\ude00")"}, {R"("")", R"("a")", R"("abcd")"});
  Expect(R"({"pattern": "^[a-c]+-\\d{2}$"})", {R"("abc-12")"},
         {R"("abc-1")", R"("x-12")", R"("abc-123")"});
  Expect(R"({"pattern": "b|^c\\.$"})", {R"("abc")", R"("b")", R"("c.")"},
         {R"("")", R"("ac.")", R"("cx")"});
  Expect(R"({"pattern": "^(\"|\\\\|\\n|[\\x00-\\x02\\-.])\\/$"})",
         {R"("\"/")", R"("\\/")", R"("\n/")", R"("\u0001/")", R"("-/")", R"("./")"},
         {R"("\u0003/")", R"("a/")", R"("\u000a/")"});
  Expect(R"({"pattern": "^.?\\S*?(?<n>x|\\ud83d\\ude00)?$"})",
         {R"("")", R"("ax")", R"("\u0000é😀")"}, {R"("a b")"});
  Expect(R"({"format": "date"})", {R"("2024-02-29")", R"("2000-02-29")", R"("1999-12-31")"},
         {R"("2023-02-29")", R"("1900-02-29")", R"("2024-04-31")", R"("2024-13-01")",
          R"("24-01-01")"});
  Expect(R"({"format": "date-time"})",
         {R"("2024-01-31T23:59:59.5+05:30")", R"("2024-01-31T00:00:00Z")"},
         {R"("2024-01-31 00:00:00Z")", R"("2024-01-31T24:00:00Z")", R"("2024-01-31T00:00:00")"});
  Expect(R"({"format": "time"})", {R"("00:00:00Z")"}, {R"("0:0:0")"});
  Expect(R"({"format": "uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"});
  Expect(R"({"format": "ipv4"})", {R"("255.0.10.199")"},
         {R"("256.0.0.1")", R"("1.2.3")", R"("01.2.3.4")"});
  Expect(R"({"format": "email"})", {R"("ab.c@d-e.org")"}, {R"("@d.org")", R"("a@b")"});
}

TEST(JsonSchema, NumbersHaveExactlyTheirBounds) {
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    const auto bound = [&] { return static_cast<int>(random() % 2400) - 1200; };
    int least = bound(), most = bound();
    if (least > most) std::swap(least, most);
    const bool open_least = random() % 2 == 0, open_most = random() % 2 == 0;
    if (most - least < 3) continue;
    Json schema = {{"type", "integer"}};
    if (round % 3 != 1) schema[open_least ? "exclusiveMinimum" : "minimum"] = least;
    if (round % 3 != 2) schema[open_most ? "exclusiveMaximum" : "maximum"] = most;
    const auto fits = [&](double number) {
      const bool low = round % 3 == 1 || (open_least ? number > least : number >= least);
      const bool high = round % 3 == 2 || (open_most ? number < most : number <= most);
      return low && high;
    };
    Texts integers(schema.dump());
    schema["type"] = "number";
    Texts numbers(schema.dump());
    for (int i = -1300; i <= 1300; ++i) {
      const std::string text = std::to_string(i);
      ASSERT_EQ(integers.Has(text), fits(i)) << schema << i;
      ASSERT_EQ(numbers.Has(text), fits(i)) << schema << i;
      const std::string sign = i < 0 ? "" : "-";
      for (const char* const fraction : {".0", ".5", ".001"}) {
        const std::string with = text + fraction;
        ASSERT_EQ(numbers.Has(with), fits(std::stod(with))) << schema << with;
        ASSERT_FALSE(integers.Has(with));
      }
    }
    EXPECT_EQ(integers.Has("1000000"), fits(1e6));
    EXPECT_EQ(integers.Has("-1000000"), fits(-1e6));
  }
  Expect(R"({"type": "integer", "minimum": 0.5, "maximum": 2})", {"1", "2"}, {"0", "3"});
  Expect(R"({"type": "number", "minimum": 0, "maximum": 1})", {"0", "0.25", "1", "1.00"},
         {"1.01", "-0.1", "2"});
}

TEST(JsonSchema, ChoicesReferencesAndWhatTheyAreTogether) {
  Expect(R"({"enum": ["a", 1, null, {"x": [1, 2.5]}]})",
         {R"("a")", "1", "null", R"({"x":[1,2.5]})"}, {"2", R"("b")"});
  Expect(R"({"enum": ["a", 1, 2.0], "type": "integer"})", {"1", "2.0"}, {R"("a")"});
  Expect(R"({"const": "é\n"})", {R"("é\n")"}, {R"("é")"});
  Expect(R"({"anyOf": [{"type": "null"}, {"type": "integer"}], "title": "x", "default": 5})",
         {"null", "3"}, {"{}"});
  Expect(
      R"({"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
      {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"}, {"{}"});
  Expect(R"({"allOf": [{"properties": {"a": {"type": ["integer", "string"]}}, "required": ["a"]},
            {"$ref": "#/$defs/more"}], "$defs": {"more": {"type": "object", "properties":
            {"a": {"type": "integer"}, "b": {"type": "null"}}}}})",
         {R"({"a":1})", R"({"a":1,"b":null})"}, {R"({"a":"x"})", R"({"b":null})"});
  Expect(
      R"({"allOf": [{"type": "number", "minimum": 1}, {"type": "integer", "minimum": 3, "maximum": 5}]})",
      {"3", "5"}, {"2", "6", "3.5"});
  Expect(
      R"({"oneOf": [{"properties": {"kind": {"const": "a"}, "x": {"type": "null"}}, "required": ["kind"], "type": "object"},
            {"$ref": "#/$defs/b~1~0%21"}], "$defs": {"b/~!": {"type": "object", "properties": {"kind": {"enum": ["b", "c"]}}, "required": ["kind"]}}})",
      {R"({"kind":"a","x":null})", R"({"kind":"c"})"},
      {R"({"kind":"d"})", R"({"kind":"b","x":null})"});
  const char* const tree =
      R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties":
      {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"]}}})";
  Expect(tree, {R"({"v":1,"next":{"v":2,"next":null}})"},
         {R"({"v":1})", R"({"v":1,"next":{"v":2}})"});
  Expect(R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[],[[[]]]]"}, {"[1]"});
  std::string deep, end;
  for (int i = 0; i < 5000; ++i) deep += "[", end += "]";
  Expect(R"({"type": "array", "items": {"$ref": "#"}})", {deep + end}, {deep + end + "]"});
}

TEST(JsonSchema, NamesWhatItCannotFollow) {
  const auto error = [](std::string_view schema) {
    const std::string what = ErrorOf(schema);
    const std::string prefix = "JSON schema: ";
    return what.starts_with(prefix)
               ? what.substr(prefix.size(), what.find(": ", prefix.size()) - prefix.size())
               : what;
  };
  EXPECT_EQ(error(R"({"properties": {"a": {"items": {"not": {}}}}})"), "#/properties/a/items/not");
  EXPECT_EQ(error(R"({"uniqueItems": true})"), "#/uniqueItems");
  EXPECT_EQ(error(R"({"$id": "a", "items": {"$id": "b"}})"), "#/items/$id");
  EXPECT_EQ(error(R"({"type": "integer", "multipleOf": 2})"), "#/multipleOf");
  EXPECT_EQ(error(R"({"type": "integer", "minLength": 2})"), "#/minLength");
  EXPECT_EQ(error(R"({"type": "int"})"), "#/type");
  EXPECT_EQ(error(R"({"type": "number", "minimum": 0.5})"), "#/minimum");
  EXPECT_EQ(error(R"({"type": "integer", "minimum": 5, "maximum": 4})"), "#");
  EXPECT_EQ(error(R"({"type": "string", "format": "iri"})"), "#/format");
  EXPECT_EQ(error(R"({"pattern": "a", "minLength": 2})"), "#/minLength");
  EXPECT_EQ(error(R"({"pattern": "a", "format": "date"})"), "#/format");
  for (const char* const pattern :
       {"(?=a)", "(?<!a)", "\\\\b", "(a)\\\\1", "a^b", "(a$)", "[a", "(a", "a)", "a{2", "*",
        "\\\\p{L}", "[b-a]", "\\\\ud800", "[^\\\\s\\\\S]"}) {
    EXPECT_EQ(error(StrCat(R"({"pattern": ")", pattern, R"("})")), "#/pattern") << pattern;
  }
  EXPECT_EQ(error(R"({"oneOf": [{"type": "number"}, {"type": "integer"}]})"), "#/oneOf");
  EXPECT_EQ(
      error(
          R"({"oneOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"a": {"const": 2}}}]})"),
      "#/oneOf");
  EXPECT_EQ(error(R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})"), "#/allOf/pattern");
  EXPECT_EQ(error(R"({"allOf": [{"additionalProperties": false}, {"properties": {"b": {}}}]})"),
            "#/allOf/additionalProperties");
  EXPECT_EQ(error(R"({"$ref": "#/$defs/x"})"), "#/$ref");
  EXPECT_EQ(error(R"({"$ref": "other.json"})"), "#/$ref");
  EXPECT_EQ(
      error(R"({"items": {"type": "object", "required": ["a"], "additionalProperties": false}})"),
      "#/items/required");
  EXPECT_EQ(error("[]"), "#");
  EXPECT_EQ(error("{\"properties\": {\"a\": false}, \"required\": [\"a\"]}"), "#/properties/a");
  EXPECT_EQ(error("{"), "no JSON");
  // What has no end, or begins with itself.
  EXPECT_NE(ErrorOf(R"({"$ref": "#"})").find("\"#\""), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})")
                .find("never ends"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"allOf": [{"$ref": "#"}]})"), "-");
  // Much work from little text.
  std::string twice = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 20; ++i) {
    twice += StrCat("\"d", i, R"(": {"allOf": [{"$ref": "#/$defs/d)", i + 1,
                    R"("}, {"$ref": "#/$defs/d)", i + 1, R"("}]}, )");
  }
  EXPECT_NE(ErrorOf(twice + R"("d20": {}}})").find("too many"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"enum": [)" + std::string(5000, '[') + std::string(5000, ']') + "]}")
                .find("too deep"),
            std::string::npos);
  std::string nested = "{}";
  for (int i = 0; i < 100; ++i) nested = R"({"items": )" + nested + "}";
  EXPECT_NE(ErrorOf(nested).find("too deep"), std::string::npos);
}

TEST(JsonSchema, HugeEnums) {
  std::string schema = R"({"enum": ["none")";
  for (int i = 0; i < 7000; ++i) schema += StrCat(", \"value ", i * 7919 % 100003, "\"");
  schema += "]}";
  Texts texts(schema);
  EXPECT_TRUE(texts.Has("\"value 7919\""));
  EXPECT_FALSE(texts.Has("\"value 7920\""));
}

// Of the keywords that the schema below uses, by their definitions.
bool Valid(const Json& root, const Json& schema, const Json& value) {
  if (schema.contains("$ref")) {
    return Valid(root, root.at(Json::json_pointer(schema.at("$ref").get<std::string>().substr(1))),
                 value);
  }
  if (schema.contains("anyOf")) {
    return std::ranges::any_of(schema.at("anyOf"),
                               [&](const Json& one) { return Valid(root, one, value); });
  }
  if (schema.contains("enum"))
    return std::ranges::find(schema.at("enum"), value) != schema.at("enum").end();
  const std::string type = schema.value("type", "");
  if (type == "integer") {
    return value.is_number_integer() &&
           value.get<int64_t>() >= schema.value("minimum", INT64_MIN) &&
           value.get<int64_t>() <= schema.value("maximum", INT64_MAX);
  }
  if (type == "number") return value.is_number();
  if (type == "null") return value.is_null();
  if (type == "string") {
    if (!value.is_string()) return false;
    const auto text = value.get<std::string>();
    const auto characters = std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
    return characters >= schema.value("minLength", 0) &&
           characters <= schema.value("maxLength", 1 << 20);
  }
  if (type == "array") {
    return value.is_array() && std::ssize(value) >= schema.value("minItems", 0) &&
           std::ssize(value) <= schema.value("maxItems", 1 << 20) &&
           std::ranges::all_of(
               value, [&](const Json& each) { return Valid(root, schema.at("items"), each); });
  }
  if (!value.is_object()) return false;
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>())) return false;
  }
  for (const auto& [name, each] : value.items()) {
    const Json& properties = schema.at("properties");
    const bool known = properties.contains(name);
    if (!known && !schema.contains("additionalProperties")) return false;
    if (!Valid(root, known ? properties.at(name) : schema.at("additionalProperties"), each))
      return false;
  }
  return true;
}

TEST(JsonSchema, EveryTextIsADocumentThatFits) {
  const std::string schema = R"({"type": "object", "properties": {
      "id": {"type": "integer", "minimum": -12, "maximum": 5031},
      "name": {"type": "string", "minLength": 1, "maxLength": 4},
      "tags": {"type": "array", "items": {"enum": ["x", "y", 3, null]}, "minItems": 1, "maxItems": 3},
      "score": {"type": "number"},
      "child": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
      "map": {"type": "object", "properties": {"ab": {"type": "integer"}}, "additionalProperties": {"type": "null"}}},
      "required": ["name", "child"]})";
  const Json parsed = Json::parse(schema);
  Texts texts(schema);
  std::mt19937 random(5);
  std::set<std::string> seen;
  int whole = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string text = texts.Random(random);
    if (text.empty()) continue;
    ++whole;
    const Json value = Json::parse(text, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << text;
    ASSERT_TRUE(Valid(parsed, parsed, value)) << text;
    for (const auto& [name, unused] : value.items()) seen.insert(name);
  }
  EXPECT_GT(whole, 100);
  EXPECT_EQ(seen.size(), 6u);
}

}  // namespace
}  // namespace thinwire::text
