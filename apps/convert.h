// `thinwire convert`: a Hugging Face model as a GGUF file.
#pragma once

#include <CLI/CLI.hpp>

namespace thinwire::app {

// Adds the command. It throws UsageError naming the option, file, key or tensor that is wrong.
void AddConvert(CLI::App& app);

}  // namespace thinwire::app
