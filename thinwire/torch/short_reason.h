// What a PyTorch or Gloo exception says, fit for one line of ours: no source position, no C++
// stack.
#pragma once

#include <exception>
#include <string>

namespace thinwire::adapter {

std::string ShortReason(const std::exception& error);

}  // namespace thinwire::adapter
