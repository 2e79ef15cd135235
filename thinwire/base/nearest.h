// What a misspelt name may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace thinwire {

// The changes of one character (insert, delete, replace) that make `a` of `b`.
int EditDistance(std::string_view a, std::string_view b);

// "; did you mean NAME?" with the nearest of `known`, whatever the case of its letters, or nothing
// when none is near enough to be what was meant.
std::string DidYouMean(std::string_view name, std::span<const std::string> known);

}  // namespace thinwire
