// `thinwire run`: a model answers a prompt, or chats.
#pragma once

#include <CLI/CLI.hpp>

namespace thinwire::app {

void AddRun(CLI::App& app);

}  // namespace thinwire::app
