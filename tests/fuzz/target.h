// What a program under tests/fuzz provides to the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// libFuzzer's name, so that it can drive the same targets. Aborts, or lets an exception out, where
// the input was taken wrongly; returns 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace thinwire::fuzz {

// Inputs to begin with: small, and together reaching as much as possible.
std::vector<std::string> Seeds();

}  // namespace thinwire::fuzz
