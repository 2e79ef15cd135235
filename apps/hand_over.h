// Commands that live in other binaries, beside this one: those that need torch in thinwire-train,
// the server in thinwire-serve.
#pragma once

#include <string>

namespace thinwire::app {

// Where such a binary belongs: the directory of the running one.
std::string BinaryBeside(const std::string& name);
bool IsExecutable(const std::string& path);

// Becomes that binary, with the same arguments. Returns only by throwing UsageError, when it was
// not built or does not start; `builds` says what builds it.
[[noreturn]] void HandOver(const std::string& name, const std::string& builds, char** argv);

}  // namespace thinwire::app
