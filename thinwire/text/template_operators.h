// What operators and subscripts of templates do, as in Python.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "thinwire/text/template_value.h"

namespace thinwire::text {

// All throw TemplateProblem.

// + - * / // % ** of numbers; + of strings and of lists; strings and lists times an integer.
Value Arithmetic(std::string_view op, const Value& a, const Value& b);
Value Negative(const Value& value);
// == != < <= > >= in, not in
bool CompareBy(std::string_view op, const Value& a, const Value& b);
bool Contains(const Value& container, const Value& item);

// object[key], else object.key; undefined where neither is there.
Value ItemOf(const Value& object, const Value& key);
// object.name, else object[name].
Value AttributeOf(const Value& object, const std::string& name);
// Negative bounds count from the end. Null: not given.
Value SliceOf(const Value& object, const Value* begin, const Value* end, const Value* step);

}  // namespace thinwire::text
