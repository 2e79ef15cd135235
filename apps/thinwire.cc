// The command `thinwire`.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "apps/bench.h"
#include "apps/convert.h"
#include "apps/failure.h"
#include "apps/hand_over.h"
#include "apps/info.h"
#include "apps/inspect.h"
#include "apps/perplexity.h"
#include "apps/plan.h"
#include "apps/quantize.h"
#include "apps/run.h"
#include "apps/tokenize.h"
#include "apps/transcribe.h"
#include "thinwire/base/error.h"
#include "thinwire/io/file.h"

namespace thinwire::app {
namespace {

constexpr const char* kAbout =
    "thinwire trains large language models over slow networks.\n"
    "\n"
    "It shards weights, gradients and optimizer state over all ranks (ZeRO-3) and sends few bytes\n"
    "over the slow link between hosts.";

constexpr const char* kExamples =
    "First steps:\n"
    "  thinwire info                      is everything here that training needs?\n"
    "  thinwire train config.json         train as the config says, with checkpoints\n"
    "  thinwire plan --help               how long a step would take on another cluster\n"
    "  thinwire inspect out               what was saved?\n"
    "  thinwire generate --help           how to let the trained model write\n"
    "  thinwire run model.gguf            chat with a language model on this machine\n"
    "  thinwire serve model.gguf          the same over HTTP, for programs and browsers\n"
    "  thinwire quantize --help           a GGUF file in fewer bits\n"
    "  thinwire tokenize --help           what tokens a model makes of a text\n"
    "  thinwire transcribe --help         what is said in a WAV file, as text\n"
    "\n"
    "`thinwire COMMAND --help` explains a command.";

constexpr const char* kInspectHelp =
    "PATH is one of\n"
    "  a .gguf file                  its metadata (long arrays and texts shortened), tensors, "
    "types\n"
    "  a .safetensors file           its tensors: name, type, shape, size; and its metadata\n"
    "  a checkpoint (out/step-300)   its step, files, parameters, and what the trainer stored\n"
    "  a directory of checkpoints    which are complete, and the newest of them\n"
    "\n"
    "A malformed file ends the command with exit code 2 and one line that says what is wrong.";

constexpr const char* kInfoHelp =
    "Compiler and instruction sets tell how fast the kernels can be, cores and memory how many\n"
    "ranks fit on this machine; thinwire-train and torch are what `train` and `generate` need.";

constexpr const char* kPlanHelp =
    "Simulates a step with each recipe: what is computed, sent over both links, and waited for.\n"
    "Example: thinwire plan --hosts 64 --ranks 8 --gbit 25 --params 70e9\n"
    "docs/planner.md explains the columns.";

constexpr const char* kQuantizeHelp =
    "TYPE is one of the types that `thinwire inspect` shows, or a mix of them:\n"
    "  Q8_0 Q6_K Q5_K_M Q4_K_M        8.5 to 4.8 bits per weight: what most files come in\n"
    "Norms and biases become F32, the output head gets at least Q6_K. Rows that do not divide "
    "into\n"
    "a type's blocks get another type, which is printed; `--dry-run` shows all types first.\n"
    "docs/weights.md compares the types.";

void AddInspect(CLI::App& app) {
  struct Question {
    std::string path;
    bool verify = false;
  };
  const auto question = std::make_shared<Question>();
  CLI::App* const command = app.add_subcommand(
      "inspect",
      "Show what a GGUF file, a safetensors file or a checkpoint holds, without loading it");
  command->footer(kInspectHelp);
  command->add_option("PATH", question->path, "The file or directory")->required();
  command->add_flag("--verify", question->verify,
                    "Read the files of a checkpoint against their checksums");
  command->callback(
      [question] { Inspect(io::RealFileSystem(), question->path, question->verify, std::cout); });
}

void AddInfo(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("info", "Show this build of thinwire and this machine");
  command->footer(kInfoHelp);
  command->callback([] { PrintInfo(std::cout); });
}

void AddPlan(CLI::App& app) {
  const auto question = std::make_shared<PlanQuestion>();
  CLI::App* const command = app.add_subcommand(
      "plan",
      "Predict step time, bytes and memory of each recipe on a cluster of your description");
  command->footer(kPlanHelp);
  AddPlanOptions(*command, *question);
  command->callback([question] { PrintPlan(*question, std::cout); });
}

void AddQuantize(CLI::App& app) {
  const auto request = std::make_shared<QuantizeRequest>();
  CLI::App* const command =
      app.add_subcommand("quantize", "Write a GGUF file with its weights in another type");
  command->footer(kQuantizeHelp);
  AddQuantizeOptions(*command, *request);
  command->callback([request] {
    Quantize(io::RealFileSystem(), *request, std::cout,
             isatty(STDERR_FILENO) != 0 ? &std::cerr : nullptr);
  });
}

// A command does its work while it is parsed.
int Run(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  // Before parsing: their options are thinwire-train's business, --help included.
  if (command == "train" || command == "generate") {
    HandOver("thinwire-train", "`make build` builds it with PyTorch", argv);
  }
  if (command == "serve") {
    HandOver("thinwire-serve", "it needs libcpp-httplib-dev and -DTHINWIRE_SERVER=ON", argv);
  }

  CLI::App app(kAbout, "thinwire");
  app.footer(kExamples);
  app.set_version_flag("--version", std::string("thinwire ") + THINWIRE_VERSION);
  app.add_subcommand("train", "Train a model as a config file says (by thinwire-train)");
  app.add_subcommand("generate", "Let a trained model write text (by thinwire-train)");
  AddPlan(app);
  AddInspect(app);
  AddConvert(app);
  AddQuantize(app);
  AddRun(app);
  app.add_subcommand("serve", "Answer over HTTP, as OpenAI's API does (by thinwire-serve)");
  AddPerplexity(app);
  AddBench(app);
  AddTranscribe(app);
  AddTokenize(app);
  AddInfo(app);
  if (argc == 1) {
    std::cout << app.help();
    return kBadInput;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return Fail(StrCat(error.what(), " (see `thinwire --help`)"), kBadInput);
  }
  std::cout.flush();
  return std::cout ? 0 : Fail("cannot write the output", kFailed);
}

}  // namespace
}  // namespace thinwire::app

int main(int argc, char** argv) { return thinwire::app::Guarded(thinwire::app::Run, argc, argv); }
