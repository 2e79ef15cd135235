// Options that every command with a model has.
#pragma once

#include <CLI/CLI.hpp>

#include "thinwire/infer/engine.h"

namespace thinwire::app {

// --threads, --context, --batch, --kv-type.
void AddEngineOptions(CLI::App& command, infer::EngineOptions& options);
// --kv-type alone.
void AddKvType(CLI::App& command, infer::EngineOptions& options);

}  // namespace thinwire::app
