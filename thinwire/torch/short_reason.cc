#include "thinwire/torch/short_reason.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace thinwire::adapter {

std::string ShortReason(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  // Gloo begins with "[/its/source/pair.cc:123] ", at times more than once ("... failed with
  // [...").
  for (size_t open = text.find("[/"); open != std::string::npos; open = text.find("[/", open)) {
    const size_t close = text.find("] ", open);
    if (close == std::string::npos) break;
    text.erase(open, close + 2 - open);
  }
  // Advice to report a bug, which a user whose peer died does not need.
  text.resize(std::min({text.size(), text.find('\n'), text.find(" This is typically")}));
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
  return text;
}

}  // namespace thinwire::adapter
