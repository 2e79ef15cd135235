// Filters (x | name) and tests (x is name) of templates.
#pragma once

#include <string>
#include <string_view>

#include "thinwire/text/template_value.h"

namespace thinwire::text {

bool HasFilter(std::string_view name);
bool HasTest(std::string_view name);
// The error's text, with what may have been meant.
std::string UnknownFilter(std::string_view name);
std::string UnknownTest(std::string_view name);

// They exist. TemplateProblem.
Value ApplyFilter(const std::string& name, const Value& input, const Arguments& arguments);
bool ApplyTest(const std::string& name, const Value& input, const Arguments& arguments);

}  // namespace thinwire::text
