#include "apps/engine_options.h"

#include "thinwire/base/error.h"

namespace thinwire::app {

void AddEngineOptions(CLI::App& command, infer::EngineOptions& options) {
  command.add_option("-t,--threads", options.threads, "Threads; 0: one for each core")
      ->check(CLI::Range(0, 512));
  command
      .add_option("-c,--context", options.context,
                  "Tokens that are kept; 0: as many as the model knows, at most 4096")
      ->check(CLI::NonNegativeNumber);
  command.add_option("-b,--batch", options.batch, "Tokens of a prompt computed at once")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  AddKvType(command, options);
}

void AddGuessOptions(CLI::App& command, infer::EngineOptions& options, int64_t& guesses) {
  constexpr int64_t kWithDraft = 6;
  CLI::Option* const count =
      command
          .add_option("--guesses,--draft-tokens", guesses,
                      "Tokens that are guessed and checked at once: the same answer, sooner where "
                      "guesses are right")
          ->check(CLI::Range(0, 7))
          ->default_str(StrCat("0; ", kWithDraft, " with --draft"));
  command
      .add_option_function<std::string>(
          "--draft",
          [&options, &guesses, count](const std::string& path) {
            options.draft = path;
            if (count->count() == 0) guesses = kWithDraft;
          },
          "A smaller .gguf of the same vocabulary that guesses; without it guesses are of what "
          "repeats itself")
      ->check(CLI::ExistingFile);
}

void AddKvType(CLI::App& command, infer::EngineOptions& options) {
  command
      .add_option_function<std::string>(
          "--kv-type",
          [&options](const std::string& name) { options.kv_type = kernels::KvTypeNamed(name); },
          "Keys and values that are kept: f32, f16 or q8_0, each half as large as the one before")
      ->default_str("f16");
}

}  // namespace thinwire::app
