// The commands that need torch live in thinwire-train, beside this binary.
#pragma once

#include <string>

namespace thinwire::app {

// Where thinwire-train belongs: the directory of the running binary.
std::string TrainBinary();
bool IsExecutable(const std::string& path);

// Becomes thinwire-train with the same arguments. Returns only by throwing UsageError, when it was
// not built or does not start.
[[noreturn]] void HandOver(char** argv);

}  // namespace thinwire::app
