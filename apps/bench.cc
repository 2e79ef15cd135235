#include "apps/bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/engine_options.h"
#include "thinwire/base/error.h"
#include "thinwire/infer/engine.h"

namespace thinwire::app {
namespace {

struct Question {
  std::string model;
  infer::EngineOptions engine;
  std::vector<int> threads = {0};
  int64_t prompt = 512;
  int64_t answer = 128;
  int rounds = 5;
  bool json = false;
};

// Tokens per second.
struct Speeds {
  std::vector<double> prompt, answer;
};

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Tokens that differ, so that no row of the embedding stays in a cache.
std::vector<int32_t> SomeTokens(int64_t count, int64_t vocabulary) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>((i * 7919 + 1000) % static_cast<size_t>(vocabulary));
  }
  return tokens;
}

// One token after the other from an empty cache, each with its logits, as an answer is made; no
// sampling.
double AnswerSeconds(infer::Decoder& decoder, const std::vector<int32_t>& tokens) {
  decoder.cache().Truncate(0, 0);
  const auto start = std::chrono::steady_clock::now();
  for (const int32_t token : tokens) {
    decoder.Forward(std::array{token}, std::array{infer::Segment{.sequence = 0, .tokens = 1}});
    decoder.Logits(std::array{int64_t{0}});
  }
  return SecondsSince(start);
}

double PromptSeconds(infer::Decoder& decoder, const std::vector<int32_t>& tokens) {
  decoder.cache().Truncate(0, 0);
  const auto start = std::chrono::steady_clock::now();
  const int64_t batch = decoder.limits().batch;
  for (int64_t at = 0, count = 0; at < std::ssize(tokens); at += count) {
    count = std::min(batch, std::ssize(tokens) - at);
    decoder.Forward(std::span(tokens).subspan(static_cast<size_t>(at), static_cast<size_t>(count)),
                    std::array{infer::Segment{.sequence = 0, .tokens = count}});
    if (at + count == std::ssize(tokens)) decoder.Logits(std::array{count - 1});
  }
  return SecondsSince(start);
}

Speeds Measure(const Question& question, int threads) {
  infer::EngineOptions options = question.engine;
  options.threads = threads;
  options.context = std::max<int64_t>({options.context, question.prompt, question.answer, 2});
  infer::Engine engine(question.model, options);
  infer::Decoder& decoder = engine.decoder();
  const int64_t vocabulary = engine.spec().vocabulary;
  const auto prompt = SomeTokens(question.prompt, vocabulary);
  const auto answer = SomeTokens(question.answer, vocabulary);
  AnswerSeconds(decoder, SomeTokens(2, vocabulary));  // touches all weights once
  Speeds speeds;
  for (int round = 0; round < question.rounds; ++round) {
    if (!prompt.empty()) {
      speeds.prompt.push_back(static_cast<double>(prompt.size()) / PromptSeconds(decoder, prompt));
    }
    if (!answer.empty()) {
      speeds.answer.push_back(static_cast<double>(answer.size()) / AnswerSeconds(decoder, answer));
    }
  }
  return speeds;
}

void PrintRow(const std::string& what, int threads, const std::vector<double>& speeds) {
  if (speeds.empty()) return;
  const auto [low, high] = std::ranges::minmax(speeds);
  std::cout << std::left << std::setw(12) << what << std::right << std::setw(8) << threads
            << std::setw(12) << Median(speeds) << "   " << low << " to " << high << '\n';
}

void Print(const Question& question) {
  nlohmann::json rows = nlohmann::json::array();
  std::cout << std::fixed << std::setprecision(1);
  if (!question.json) std::cout << "tokens/s      threads      median   range\n";
  for (const int threads : question.threads) {
    const Speeds speeds = Measure(question, threads);
    if (question.json) {
      rows.push_back({{"threads", threads}, {"prompt", speeds.prompt}, {"answer", speeds.answer}});
      continue;
    }
    PrintRow(StrCat("prompt ", question.prompt), threads, speeds.prompt);
    PrintRow(StrCat("answer ", question.answer), threads, speeds.answer);
  }
  if (question.json) std::cout << rows.dump() << '\n';
}

}  // namespace

void AddBench(CLI::App& app) {
  const auto question = std::make_shared<Question>();
  CLI::App* const command = app.add_subcommand("bench", "Measure tokens per second of a model");
  command->footer("Prompts and answers take turns, round after round; the median counts.");
  command->add_option("MODEL", question->model, "A .gguf file")->required();
  command->add_option("-p,--prompt", question->prompt, "Tokens of a prompt; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("-n,--answer", question->answer, "Tokens of an answer; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("-r,--rounds", question->rounds, "Rounds")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("-t,--threads", question->threads, "One or several numbers, 1,2; 0: all cores")
      ->delimiter(',')
      ->check(CLI::Range(0, 512));
  command->add_option("-b,--batch", question->engine.batch, "Tokens of a prompt computed at once")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  AddKvType(*command, question->engine);
  command->add_flag("--json", question->json, "One line of JSON with every round");
  command->callback([question] { Print(*question); });
}

}  // namespace thinwire::app
