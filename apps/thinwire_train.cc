// thinwire-train: trains a LLaMA-type model over the ZeRO engine, and writes text with one.

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/torch/torch_log.h"
#include "thinwire/train/config.h"
#include "thinwire/train/failure.h"
#include "thinwire/train/generate.h"
#include "thinwire/train/launcher.h"
#include "thinwire/train/trainer.h"

namespace thinwire::train {
namespace {

struct TrainArguments {
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 0;
  bool resume = false;
  std::string trace;
  std::string trace_steps;
};

struct GenerateArguments {
  std::string checkpoint;
  std::string prompt;
  int64_t tokens = 200;
  SamplingOptions sampling;
};

// The config; among several ranks an error says whose it is.
Config LoadConfigOn(const launch::LaunchEnvironment& environment, const TrainArguments& arguments) {
  try {
    return LoadConfig(arguments.config, arguments.overrides);
  } catch (const UsageError& error) {
    if (environment.world == 1) throw;
    throw UsageError(StrCat("rank ", environment.rank, ": ", error.what()));
  }
}

// The options that are keys of the config, too.
void AddOverride(TrainArguments& arguments, const char* key, const std::string& value) {
  if (value.empty()) return;
  const auto quoted =
      nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  arguments.overrides.push_back(StrCat(key, "=", quoted));
}

int RunTrain(TrainArguments arguments) {
  AddOverride(arguments, "output.trace", arguments.trace);
  AddOverride(arguments, "output.trace_steps", arguments.trace_steps);
  if (arguments.ranks > 1) {
    const Config config = LoadConfig(arguments.config, arguments.overrides);
    std::vector<std::string> child = {"train", arguments.config};
    for (const std::string& text : arguments.overrides) {
      child.insert(child.end(), {"--set", text});
    }
    if (arguments.resume) child.push_back("--resume");
    // When one rank ends with an error the others learn of it within a sixth of the deadline and a
    // second; who does not end then was stopped.
    return Launch({.ranks = arguments.ranks,
                   .arguments = child,
                   .grace = DeadlineOf(config) / 4 + std::chrono::seconds(5)});
  }
  if (arguments.ranks == 1) RequireNoLauncher();
  const auto environment = launch::LaunchEnvironment::FromVariables();
  Trainer trainer(LoadConfigOn(environment, arguments), environment, arguments.resume);
  try {
    trainer.Run();
  } catch (...) {
    EndProcess(environment.rank, FailureOf(std::current_exception()), trainer.board());
  }
  return 0;
}

int RunGenerate(const GenerateArguments& arguments) {
  if (!(arguments.sampling.temperature >= 0) || !std::isfinite(arguments.sampling.temperature)) {
    throw UsageError("--temperature: expected a number of at least 0");
  }
  Generator generator(arguments.checkpoint);
  std::fwrite(arguments.prompt.data(), 1, arguments.prompt.size(), stdout);
  bool open = true;
  generator.Generate(arguments.prompt, arguments.tokens, arguments.sampling, [&](char c) {
    open = std::fputc(c, stdout) != EOF && std::fflush(stdout) == 0;
    return open;
  });
  if (open) std::fputc('\n', stdout);
  return 0;
}

void DescribeTrain(CLI::App& command, TrainArguments& arguments) {
  command.add_option("config", arguments.config, "JSON file; its keys are listed below")
      ->required();
  command
      .add_option("--ranks", arguments.ranks,
                  "Start this many processes on this machine. Without it the variables of a "
                  "launcher such as torchrun count, or one process trains alone")
      ->check(CLI::Range(1, 1024));
  command.add_flag("--resume", arguments.resume,
                   "Go on from the newest checkpoint in output.directory");
  command
      .add_option("--set", arguments.overrides,
                  "section.key=value, e.g. training.steps=50; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--trace", arguments.trace,
                     "Write a Chrome trace of some steps of all ranks to this file: output.trace");
  command.add_option("--trace-steps", arguments.trace_steps,
                     "Steps in it, e.g. 5..8: output.trace_steps");
  command.footer(
      "Keys of the config, with their defaults:\n" + ConfigHelp() +
      "\nCtrl-C and SIGTERM save and end at a step that all ranks agree on; a second one "
      "ends at once.\n\nExample:\n  thinwire-train train config.json --ranks 4");
}

void DescribeGenerate(CLI::App& command, GenerateArguments& arguments) {
  command
      .add_option("checkpoint,--checkpoint", arguments.checkpoint,
                  "A checkpoint, or the output directory of a run (its newest one)")
      ->required();
  command.add_option("--prompt", arguments.prompt, "The text begins with this");
  command.add_option("--tokens", arguments.tokens, "Bytes to write at most")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  command
      .add_option("--temperature", arguments.sampling.temperature,
                  "0 takes the likeliest byte; higher is wilder")
      ->capture_default_str();
  command.add_option("--top-k", arguments.sampling.top_k, "Draw from the k likeliest; 0: all")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  command.add_option("--seed", arguments.sampling.seed, "Of the draws")->capture_default_str();
  command.footer("Example:\n  thinwire-train generate out --prompt \"def \" --tokens 200");
}

int Main(int argc, char** argv) {
  adapter::QuietTorchLog();
  CLI::App app(
      "Trains a LLaMA-type model whose weights, gradients and optimizer state are sharded "
      "over all ranks, and writes text with one.",
      "thinwire-train");
  app.require_subcommand(1);
  TrainArguments train;
  GenerateArguments generate;
  CLI::App* train_command = app.add_subcommand("train", "Train from a config");
  CLI::App* generate_command = app.add_subcommand("generate", "Write text from a checkpoint");
  DescribeTrain(*train_command, train);
  DescribeGenerate(*generate_command, generate);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return train_command->parsed() ? RunTrain(train) : RunGenerate(generate);
  } catch (...) {
    const Failure failure = FailureOf(std::current_exception());
    std::fflush(stdout);
    std::fprintf(stderr, "thinwire: %s\n", failure.message.c_str());
    return failure.exit_code;
  }
}

}  // namespace
}  // namespace thinwire::train

int main(int argc, char** argv) { return thinwire::train::Main(argc, argv); }
