// Methods of strings, lists and dictionaries that change nothing.
#pragma once

#include <string>
#include <string_view>

#include "thinwire/text/template_value.h"

namespace thinwire::text {

// The method of `object`, bound to it; undefined where it has none of this name. TemplateProblem
// for those that would change it.
Value MethodOf(const Value& object, const std::string& name);

// What filters share with methods.
std::string Lower(const std::string& text);
std::string Upper(const std::string& text);
std::string Capitalize(const std::string& text);
// Without `characters`, white space; with them, any of them.
std::string Strip(const std::string& text, const Value* characters, bool left, bool right);
// At most `count` of them, all where it is negative.
std::string Replace(const std::string& text, const std::string& old, const std::string& with,
                    int64_t count);

}  // namespace thinwire::text
