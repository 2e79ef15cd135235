// `thinwire tokenize`: what tokens a model makes of a text.
#pragma once

#include <CLI/CLI.hpp>

namespace thinwire::app {

void AddTokenize(CLI::App& app);

}  // namespace thinwire::app
