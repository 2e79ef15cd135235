// Options that every command with a model has.
#pragma once

#include <CLI/CLI.hpp>

#include "thinwire/infer/engine.h"

namespace thinwire::app {

// --threads, --context, --batch.
void AddEngineOptions(CLI::App& command, infer::EngineOptions& options);

}  // namespace thinwire::app
