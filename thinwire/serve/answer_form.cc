#include "thinwire/serve/answer_form.h"

#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/serve/api_error.h"
#include "thinwire/text/gbnf.h"
#include "thinwire/text/json_schema.h"

namespace thinwire::serve {
namespace {

using nlohmann::json;

// Of each object of a body with a schema. It is read a second time for the order of members, where
// each looks for its name among those before it.
constexpr size_t kMostMembers = 1000;
// Of a schema, and of values in one another; what is read here calls itself for each.
constexpr int kMostNesting = 256;

constexpr const char* kSchemaField = "response_format.json_schema.schema";

void CheckSize(const json& body) {
  std::vector<std::pair<const json*, int>> open = {{&body, 0}};
  while (!open.empty()) {
    const auto [value, depth] = open.back();
    open.pop_back();
    if (!value->is_structured()) continue;
    if (depth > kMostNesting) throw BadField(kSchemaField, "the body of the request is too deep");
    if (value->is_object() && value->size() > kMostMembers) {
      throw BadField(kSchemaField, StrCat("an object of the body has ", value->size(),
                                          " members, at most ", kMostMembers, " beside a schema"));
    }
    for (const json& each : *value) open.emplace_back(&each, depth + 1);
  }
}

template <typename Make>
AnswerForm Made(std::string field, const Make& make) {
  try {
    return {make(), std::move(field)};
  } catch (const UsageError& error) {
    throw BadField(field, error.what());
  }
}

AnswerForm ReadSchema(Fields& format, const json& body, std::string_view text) {
  const json* const value = format.Find("json_schema");
  if (value == nullptr) throw BadField("response_format.json_schema", "is missing");
  Fields fields(*value, "response_format.json_schema.");
  if (fields.Find("schema") == nullptr) throw BadField(kSchemaField, "is missing");
  // It is always followed to the letter.
  fields.Bool("strict", true);
  fields.Ignore({"name", "description"});
  fields.RefuseOthers();
  CheckSize(body);
  const auto ordered = nlohmann::ordered_json::parse(text);
  const std::string schema = ordered.at("response_format").at("json_schema").at("schema").dump();
  return Made(kSchemaField, [&] { return text::GrammarOfSchema(schema); });
}

}  // namespace

std::optional<AnswerForm> ReadAnswerForm(Fields& fields, std::string_view body) {
  const std::string grammar = fields.String("grammar", "");
  const json* const format = fields.Find("response_format");
  std::optional<AnswerForm> form;
  if (format != nullptr) {
    Fields inner(*format, "response_format.");
    const std::string type = inner.String("type", "");
    if (type == "json_schema") {
      form = ReadSchema(inner, fields.object(), body);
    } else if (type == "json_object") {
      form = {text::GrammarOfJsonObjects(), "response_format"};
    } else if (type != "text") {
      throw BadField("response_format.type",
                     "must be \"text\", \"json_object\" or \"json_schema\"");
    }
    inner.RefuseOthers();
  }
  if (grammar.empty()) return form;
  if (form) throw BadField("grammar", "and response_format: an answer has one form");
  return Made("grammar", [&] { return text::ParseGbnf(grammar); });
}

}  // namespace thinwire::serve
