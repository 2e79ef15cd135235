#include "thinwire/text/chat_template.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "thinwire/text/testing.h"

namespace thinwire::text {
namespace {

using nlohmann::ordered_json;

// {"output"}, {"refusal"} or {"error"}, as in the test data.
ordered_json Render(const std::string& source, const ordered_json& variables,
                    const RenderOptions& options = {}) {
  try {
    return {{"output", ChatTemplate(source).Render(variables, options)}};
  } catch (const TemplateRefusal& refusal) {
    return {{"refusal", refusal.message()}};
  } catch (const TemplateError& error) {
    return {{"error", error.what()}};
  }
}

void ExpectSame(const std::string& source, const ordered_json& variables,
                const ordered_json& expected, std::time_t now) {
  const ordered_json found = Render(source, variables, {.now = now});
  for (const char* key : {"output", "refusal"}) {
    EXPECT_EQ(found.value(key, ordered_json()), expected.value(key, ordered_json()))
        << source << "\nfound " << found << "\nexpected " << expected;
  }
  EXPECT_EQ(found.contains("error"), expected.contains("error"))
      << source << "\nfound " << found << "\nexpected " << expected;
}

ordered_json TestData() {
  std::ifstream file(THINWIRE_TEXT_TESTDATA "/templates.json");
  return ordered_json::parse(file);
}

TEST(ChatTemplate, TemplatesOfModelsRenderAsInJinja) {
  const ordered_json data = TestData();
  for (const auto& expected : data.at("models")) {
    const std::string source = data.at("sources").at(expected.at("model").get<std::string>());
    ExpectSame(source, data.at("conversations").at(expected.at("conversation").get<size_t>()),
               expected, data.at("now"));
  }
}

TEST(ChatTemplate, SmallTemplatesRenderAsInJinja) {
  const ordered_json data = TestData();
  for (const auto& expected : data.at("small")) {
    ExpectSame(expected.at("template"), data.at("variables"), expected, data.at("now"));
  }
}

std::string ErrorOf(const std::string& source, const RenderOptions& options = {}) {
  const ordered_json variables = {{"l", {1, 2}}, {"s", "text"}, {"é", 1}};
  return Render(source, variables, options).value("error", "no error");
}

TEST(ChatTemplate, ErrorsNameLineAndColumn) {
  EXPECT_EQ(ErrorOf("a\n{{ nothing.x }}"),
            "chat template, line 2, column 12: 'nothing' is undefined");
  EXPECT_EQ(ErrorOf("é{{ s | uper }}"),
            "chat template, line 1, column 9: unknown filter 'uper'; did you mean upper?");
  EXPECT_EQ(ErrorOf("{{ s is strng }}"),
            "chat template, line 1, column 9: unknown test 'strng'; did you mean string?");
  EXPECT_EQ(ErrorOf("{% frob %}"), "chat template, line 1, column 4: unknown tag 'frob'");
  EXPECT_EQ(ErrorOf("{% if s %}"),
            "chat template, line 1, column 11: the template ends before {% endif %}");
  EXPECT_EQ(ErrorOf("{{ 'ü'.upper() }}"),
            "chat template, line 1, column 13: upper of other than ASCII letters is not supported");
}

TEST(ChatTemplate, ItCannotRunWithoutEnd) {
  const RenderOptions small = {.limits = {.output_bytes = 1000, .steps = 10000, .depth = 20}};
  const auto ends = [&](const std::string& source, const std::string& reason) {
    const std::string error = ErrorOf(source, small);
    EXPECT_NE(error.find(reason), std::string::npos) << source.substr(0, 200) << ": " << error;
  };
  ends("{% for i in range(99999) %}{% endfor %}", "too many steps");
  ends("{% for i in range(999) %}some text{% endfor %}", "exceeds 1000 bytes");
  ends("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "too deeply");
  ends("{{ 'x' * 999999999 }}", "too long");
  ends(
      "{% set n = namespace(s='xx') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor "
      "%}",
      "too long");
  ends(
      "{% set n = namespace(s='xx') %}{% for i in range(99) %}{% set n.s = n.s.replace('x', n.s) %}"
      "{% endfor %}",
      "too long");
  ends("{% set n = namespace(s=[]) %}{% for i in range(999) %}{% set n.s = [n.s] %}{% endfor %}",
       "nested too deeply");
  ends("{{ " + std::string(100000, '(') + "1" + std::string(100000, ')') + " }}",
       "nested too deeply");
  std::string blocks;
  for (int i = 0; i < 10000; ++i) blocks += "{% if s %}";
  ends(blocks, "nested too deeply");
  std::string chain = "{% if s %}";
  for (int i = 0; i < 10000; ++i) chain += "{% elif s %}";
  ends(chain + "{% endif %}", "nested too deeply");
}

// Held by a test under the leak sanitizer: namespaces in a ring.
TEST(ChatTemplate, NamespacesThatHoldOneAnotherAreFreed) {
  const std::string source =
      "{% set a = namespace() %}{% set b = namespace(a=[a]) %}{% set a.b = b %}{{ a.b.a[0] == a }}";
  EXPECT_EQ(Render(source, ordered_json::object()).at("output"), "True");
}

TEST(ChatTemplate, WhatItIsGivenMustBeText) {
  EXPECT_THROW(ChatTemplate("x").Render({{"s", "\xFF"}}), TemplateError);
  EXPECT_EQ(ChatTemplate("{{ messages }}").Render({{"messages", nullptr}}), "None");
}

}  // namespace
}  // namespace thinwire::text
