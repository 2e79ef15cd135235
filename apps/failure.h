// How the commands end that need no torch: 0 done, 1 something failed, 2 the input must be changed.
#pragma once

#include <string>

namespace thinwire::app {

constexpr int kFailed = 1;
constexpr int kBadInput = 2;

// Prints the message in one line, without control characters; returns `code`.
int Fail(const std::string& message, int code);

// run(argc, argv), or Fail for what it throws.
int Guarded(int (*run)(int, char**), int argc, char** argv);

}  // namespace thinwire::app
