// Regular expressions of JSON Schema (ECMA-262) as the strings that they match.
#pragma once

#include <string>
#include <string_view>

#include "thinwire/text/json_forms.h"

namespace thinwire::text {

// The content of a string in which `pattern` is found: anywhere, unless ^ and $ say where.
// UsageError that names `path` for what is no expression, and for what no grammar can say:
// looking ahead and behind, references to groups, \b, ^ and $ within.
Grammar::Node PatternContent(Grammar& grammar, JsonForms& forms, std::string_view pattern,
                             const std::string& path);

}  // namespace thinwire::text
