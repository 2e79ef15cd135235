// `thinwire info`: this build and this machine.
#pragma once

#include <iosfwd>

namespace thinwire::app {

// One "what: value" a line.
void PrintInfo(std::ostream& out);

}  // namespace thinwire::app
