// Which machine this process runs on, as ranks compare it.
#pragma once

#include <string>

namespace thinwire::adapter {

// Equal for the processes that share a machine and its network (boot id and network namespace).
std::string ThisMachine();

}  // namespace thinwire::adapter
