// The page for people: page.html, compiled in.
#pragma once

#include <string_view>

namespace thinwire::serve {

std::string_view ChatPage();

}  // namespace thinwire::serve
