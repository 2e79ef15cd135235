// `thinwire inspect` for GGUF files.
#pragma once

#include <iosfwd>
#include <string>

namespace thinwire::app {

// Header, metadata (long arrays and strings shortened), how much there is of each type, tensors.
// Throws UsageError when the file is malformed, IoError when it cannot be read.
void InspectGguf(const std::string& path, std::ostream& out);

}  // namespace thinwire::app
