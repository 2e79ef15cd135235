// `thinwire perplexity`: how well a model predicts a text.
#pragma once

#include <CLI/CLI.hpp>

namespace thinwire::app {

void AddPerplexity(CLI::App& app);

}  // namespace thinwire::app
