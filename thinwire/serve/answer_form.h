// The form that a request wants its answer in: "response_format" or "grammar".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "thinwire/serve/fields.h"
#include "thinwire/text/grammar.h"

namespace thinwire::serve {

struct AnswerForm {
  text::Grammar grammar;
  std::string field;  // that says so, for errors of what comes of it
};

// Nothing where any text will do. `fields` are those of `body`, which has the members of a schema
// in the order that they were written in. ApiError naming the field that is wrong.
std::optional<AnswerForm> ReadAnswerForm(Fields& fields, std::string_view body);

}  // namespace thinwire::serve
