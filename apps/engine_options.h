// Options that every command with a model has.
#pragma once

#include <CLI/CLI.hpp>

#include "thinwire/infer/engine.h"

namespace thinwire::app {

// --guesses and --draft, which guess tokens for one answer or many.
void AddGuessOptions(CLI::App& command, infer::EngineOptions& options, int64_t& guesses);
// --threads, --context, --batch, --kv-type.
void AddEngineOptions(CLI::App& command, infer::EngineOptions& options);
// --kv-type alone.
void AddKvType(CLI::App& command, infer::EngineOptions& options);

}  // namespace thinwire::app
