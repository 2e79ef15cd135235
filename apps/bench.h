// `thinwire bench`: tokens per second of a model on this machine.
#pragma once

#include <CLI/CLI.hpp>

namespace thinwire::app {

void AddBench(CLI::App& app);

}  // namespace thinwire::app
