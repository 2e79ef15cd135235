// `thinwire transcribe`: speech in a WAV file to text.
#pragma once

#include <CLI/CLI.hpp>

namespace thinwire::app {

void AddTranscribe(CLI::App& app);

}  // namespace thinwire::app
