#include "apps/run.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "apps/engine_options.h"
#include "thinwire/base/error.h"
#include "thinwire/infer/chat.h"
#include "thinwire/infer/engine.h"
#include "thinwire/infer/grammar_constraint.h"
#include "thinwire/infer/text_stream.h"
#include "thinwire/io/file.h"
#include "thinwire/text/gbnf.h"
#include "thinwire/text/json_schema.h"

namespace thinwire::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMostFormBytes = 1 << 20;

struct Question {
  std::string model, prompt, system;
  std::vector<std::string> stops;
  infer::EngineOptions engine;
  infer::SamplingOptions sampling;
  std::optional<uint64_t> seed;
  int64_t tokens = 512;
  int64_t guesses = 0;
  std::string grammar_file, schema;
  std::optional<text::Grammar> form;  // of answers
  bool raw = false;
  bool quiet = false;
};

// Set by Ctrl-C while an answer is written; what a signal handler may touch.
std::atomic<bool>& Interrupted() {
  static std::atomic<bool> interrupted{false};  // NOLINT(mutable-global): a handler takes nothing
  return interrupted;
}

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One answer, shown as it comes.
class Answer {
 public:
  Answer(infer::Engine& engine, const Question& question, const infer::SamplingOptions& sampling)
      : engine_(engine), question_(question), sampling_(sampling) {}

  // The whole text.
  std::string Write(const std::vector<int32_t>& prompt) {
    std::string text;
    infer::TextStream stream(engine_.tokenizer().vocabulary(), question_.stops,
                             [&](std::string_view piece) {
                               if (text.empty()) first_ = Clock::now();
                               std::cout << piece << std::flush;
                               text += piece;
                               return !Interrupted() && static_cast<bool>(std::cout);
                             });
    const int64_t reused = engine_.scheduler().reused_tokens();
    const auto constraint = Constraint();
    Interrupted() = false;
    first_ = begin_ = Clock::now();
    engine_.scheduler().Submit({.prompt = prompt,
                                .sampling = sampling_,
                                .most_tokens = question_.tokens,
                                .guesses = question_.guesses,
                                .sink = &stream,
                                .constraint = constraint.get()});
    while (engine_.scheduler().Step()) {
    }
    std::cout << '\n';
    if (stream.finish() == infer::Finish::kStuck) throw UsageError(constraint->problem());
    if (!question_.quiet) {
      const auto computed = std::ssize(prompt) - (engine_.scheduler().reused_tokens() - reused);
      Report(computed, stream);
    }
    return text;
  }

 private:
  // Null where any text will do.
  std::unique_ptr<infer::GrammarConstraint> Constraint() const {
    if (!question_.form) return nullptr;
    return std::make_unique<infer::GrammarConstraint>(*question_.form, engine_.token_trie(),
                                                      engine_.spec().vocabulary);
  }

  void Report(int64_t computed, const infer::TextStream& stream) const {
    const double prompt_s = std::chrono::duration<double>(first_ - begin_).count();
    const double answer_s = SecondsSince(first_);
    std::cerr << std::fixed << std::setprecision(1) << "[prompt " << computed << " tokens, "
              << static_cast<double>(computed) / prompt_s << "/s; answer " << stream.tokens()
              << " tokens, " << static_cast<double>(stream.tokens() - 1) / answer_s << "/s; seed "
              << sampling_.seed << Guesses()
              << (stream.finish() == infer::Finish::kLength ? "; cut off at --tokens or --context"
                                                            : "")
              << "]\n";
  }

  std::string Guesses() const {
    const infer::Scheduler& scheduler = engine_.scheduler();
    if (question_.guesses == 0) return "";
    return StrCat("; ", scheduler.right_guesses(), " of ", scheduler.guessed_tokens(),
                  " guesses right");
  }

  infer::Engine& engine_;
  const Question& question_;
  const infer::SamplingOptions& sampling_;
  Clock::time_point begin_, first_;
};

std::vector<int32_t> EncodeRaw(const infer::Engine& engine, const std::string& text) {
  std::vector<int32_t> tokens;
  text::Encoder(engine.tokenizer())
      .Encode(text, {.add_special = true, .parse_special = true}, &tokens);
  return tokens;
}

// Line after line, until the input ends.
void Converse(infer::Engine& engine, const Question& question,
              const infer::SamplingOptions& sampling, const infer::Chat& chat) {
  std::vector<infer::ChatMessage> messages;
  if (!question.system.empty()) messages.push_back({"system", question.system});
  const bool terminal = isatty(STDIN_FILENO) != 0;
  std::string line;
  while ((terminal && std::cout << "> " << std::flush), std::getline(std::cin, line)) {
    if (line.empty()) continue;
    messages.push_back({"user", line});
    messages.push_back(
        {"assistant", Answer(engine, question, sampling).Write(chat.Encode(messages))});
  }
  if (terminal) std::cout << '\n';
}

void ReadForm(Question& question) {
  if (!question.schema.empty()) {
    // A file, or the schema itself.
    const bool is_text = question.schema.find_first_of("{[") != std::string::npos;
    question.form = text::GrammarOfSchema(
        is_text ? question.schema
                : io::ReadFile(io::RealFileSystem(), question.schema, kMostFormBytes));
  }
  if (question.grammar_file.empty()) return;
  question.form =
      text::ParseGbnf(io::ReadFile(io::RealFileSystem(), question.grammar_file, kMostFormBytes));
}

void Print(Question& question) {
  ReadForm(question);
  const auto start = Clock::now();
  infer::Engine engine(question.model, question.engine);
  infer::SamplingOptions sampling = question.sampling;
  sampling.seed = question.seed.value_or(std::random_device()());
  if (!question.quiet) {
    constexpr double kMega = 1e6;
    std::cerr << std::fixed << std::setprecision(1) << '[' << engine.spec().architecture << ", "
              << static_cast<double>(engine.weight_bytes()) / kMega << " MB of weights, "
              << static_cast<double>(engine.planned_bytes()) / kMega << " MB for "
              << engine.context() << " tokens of context, " << engine.threads()
              << (engine.threads() == 1 ? " thread" : " threads") << ", ready in "
              << SecondsSince(start) * 1e3 << " ms]\n";
  }
  std::signal(SIGINT, [](int) {
    // The second one ends the program.
    if (Interrupted().exchange(true)) std::_Exit(130);
  });
  if (question.raw) {
    Answer(engine, question, sampling).Write(EncodeRaw(engine, question.prompt));
    return;
  }
  const infer::Chat chat(engine.tokenizer(), engine.chat_template());
  if (question.prompt.empty()) return Converse(engine, question, sampling, chat);
  std::vector<infer::ChatMessage> messages;
  if (!question.system.empty()) messages.push_back({"system", question.system});
  messages.push_back({"user", question.prompt});
  Answer(engine, question, sampling).Write(chat.Encode(messages));
}

void AddSamplingOptions(CLI::App& command, Question& question) {
  infer::SamplingOptions& sampling = question.sampling;
  const auto add = [&command](const char* name, auto& value, const char* what) {
    command.add_option(name, value, what)->capture_default_str();
  };
  add("--temperature", sampling.temperature, "Higher: more surprising; 0: the likeliest token");
  add("--top-k", sampling.top_k, "Only so many likeliest tokens; 0: all");
  add("--top-p", sampling.top_p, "Only the likeliest tokens that together have this probability");
  add("--min-p", sampling.min_p, "Only tokens with so much of the likeliest one's probability");
  add("--repetition-penalty", sampling.repetition_penalty, "Above 1: what was said is avoided");
  command.add_option("--seed", question.seed, "The same seed, the same answer; else a new one");
}

void AddAnswerForms(CLI::App& command, Question& question) {
  CLI::Option* const schema =
      command.add_option("--json-schema", question.schema,
                         "A JSON schema, or a file with one: every answer is a document of it");
  command
      .add_option("--grammar", question.grammar_file,
                  "A file with a grammar in GBNF, of which every answer is a text")
      ->check(CLI::ExistingFile)
      ->excludes(schema);
}

}  // namespace

void AddRun(CLI::App& app) {
  const auto question = std::make_shared<Question>();
  CLI::App* const command =
      app.add_subcommand("run", "Let a model answer a prompt, or chat with it");
  command->footer(
      "Without --prompt it chats: one line, one answer, until the input ends; Ctrl-C cuts an "
      "answer\n"
      "short. Messages are put into the chat template of the file; --raw continues a text as it "
      "is.\n"
      "Example: thinwire run model.gguf -p \"Name three rivers.\" --temperature 0");
  command->add_option("MODEL", question->model, "A .gguf file")->required();
  command->add_option("-p,--prompt", question->prompt, "What to answer");
  command->add_option("-s,--system", question->system, "How the model is to behave");
  command->add_option("-n,--tokens", question->tokens, "Length of an answer, at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  AddSamplingOptions(*command, *question);
  command->add_option("--stop", question->stops, "Text that ends an answer; may be repeated")
      ->take_all();
  AddGuessOptions(*command, question->engine, question->guesses);
  AddAnswerForms(*command, *question);
  AddEngineOptions(*command, question->engine);
  command->add_flag("--raw", question->raw, "No chat template: --prompt is continued");
  command->add_flag("-q,--quiet", question->quiet, "Only the answer");
  command->callback([question] { Print(*question); });
}

}  // namespace thinwire::app
