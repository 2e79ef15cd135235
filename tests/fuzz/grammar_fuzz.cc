// Grammars and JSON schemas of any bytes: refused with a UsageError of one line, or read, and then
// they run; texts of a schema are JSON.
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "tests/fuzz/checks.h"
#include "tests/fuzz/target.h"
#include "thinwire/text/gbnf.h"
#include "thinwire/text/grammar_automaton.h"
#include "thinwire/text/json_schema.h"

namespace thinwire::fuzz {
namespace {

using text::GrammarAutomaton;

// Less than in use: all that a run does is to be quick here.
constexpr int64_t kMostWork = 1 << 14;

// One of the bytes that go on, by turns, until the text may end, or a limit.
std::optional<std::string> SomeText(GrammarAutomaton& automaton, uint32_t choice) {
  std::string text;
  auto state = automaton.start();
  while (text.size() < 200 && !automaton.Complete(state)) {
    automaton.Allow();
    std::string bytes;
    for (int byte = 255; byte >= 0; --byte) {
      if (automaton.Next(state, static_cast<uint8_t>(byte)) != GrammarAutomaton::kDead) {
        bytes += static_cast<char>(byte);
      }
    }
    Require(!bytes.empty(), "a text that cannot go on and cannot end");
    choice = choice * 1664525 + 1013904223;
    text += bytes[(choice >> 16) % bytes.size()];
    state = automaton.Next(state, static_cast<uint8_t>(text.back()));
    if (text.size() % 16 == 0) state = automaton.Forget(state);
  }
  if (!automaton.Complete(state)) return std::nullopt;
  return text;
}

void TryGrammar(std::string_view input, bool is_schema) {
  std::optional<text::Grammar> grammar;
  const bool read = Accepts(is_schema ? "JSON schema: " : "grammar: ", [&] {
    grammar = is_schema ? text::GrammarOfSchema(input) : text::ParseGbnf(input);
  });
  if (!read) return;
  Accepts("grammar: ", [&] {
    const auto program = std::make_shared<text::GrammarProgram>(text::CompileGrammar(*grammar));
    for (uint32_t choice = 0; choice < 3; ++choice) {
      GrammarAutomaton automaton(program, kMostWork);
      const std::optional<std::string> text = SomeText(automaton, choice);
      if (text && is_schema) Require(nlohmann::json::accept(*text), "a text that is no JSON");
    }
  });
}

}  // namespace

std::vector<std::string> Seeds() {
  return {
      "root ::= a | \"x\\n\\u00e9\" [^a-z\\]]{2,3} (b? \"y\")+ . # end\na ::= \"q\" b*\nb ::= "
      "[0-9]",
      R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-c\\d]+(x|y)?$"},
          "b": {"$ref": "#/$defs/n"}}, "required": ["a"], "additionalProperties": {"type": "null"},
          "$defs": {"n": {"anyOf": [{"type": "integer", "minimum": -3, "maximum": 120},
          {"type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": 3}]}}})",
      R"({"allOf": [{"type": ["string", "number"]}, {"type": "string", "minLength": 2}]})",
      R"({"oneOf": [{"properties": {"k": {"const": 1}}, "required": ["k"], "type": "object"},
          {"properties": {"k": {"enum": [2, "z"]}}, "required": ["k"], "type": "object"}]})",
      R"({"prefixItems": [{"format": "date"}, {"exclusiveMinimum": 0, "type": "number"}],
          "minItems": 1, "items": false})"};
}

}  // namespace thinwire::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  thinwire::fuzz::TryGrammar(input, input.find_first_of("{[") == input.find_first_not_of(" \n"));
  return 0;
}
