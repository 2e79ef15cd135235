// Reads JSON text into a Config, strictly: no unknown or repeated key, no value of another type or
// outside its bounds. Not the checks between keys (config.cc).
#pragma once

#include <string_view>

#include "thinwire/train/config.h"

namespace thinwire::train {

// Keys that the text does not have keep their value. Throws UsageError.
void ReadInto(Config& config, std::string_view json, std::string_view source);

}  // namespace thinwire::train
