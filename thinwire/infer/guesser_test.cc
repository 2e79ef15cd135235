#include "thinwire/infer/guesser.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "thinwire/base/counted_malloc.h"
#include "thinwire/base/error.h"
#include "thinwire/infer/draft_model.h"
#include "thinwire/infer/engine.h"
#include "thinwire/infer/loaded_tiny_model.h"
#include "thinwire/io/testing.h"

namespace thinwire::infer {
namespace {

std::vector<int32_t> Guessed(Guesser& guesser, std::vector<int32_t> tokens, int64_t most) {
  const auto certain = static_cast<std::ptrdiff_t>(tokens.size());
  const GuessWanted wanted = {.sequence = 0, .tokens = &tokens, .most = most};
  guesser.Guess({&wanted, 1});
  return {tokens.begin() + certain, tokens.end()};
}

TEST(RepeatGuesser, GoesOnAsTheLatestTime) {
  RepeatGuesser guesser;
  using Tokens = std::vector<int32_t>;
  EXPECT_EQ(Guessed(guesser, {1, 2, 3, 4, 5, 9, 1, 2, 3}, 2), (Tokens{4, 5}));
  EXPECT_EQ(Guessed(guesser, {1, 2, 3, 4, 1, 2, 3, 7, 1, 2, 3}, 2), (Tokens{7, 1}));
  EXPECT_EQ(Guessed(guesser, {8, 1, 2, 3, 1, 2, 3}, 7), (Tokens{1, 2, 3, 1, 2, 3, 1}));
  EXPECT_EQ(Guessed(guesser, {5, 5, 5, 5}, 3), (Tokens{5, 5, 5}));
  EXPECT_EQ(Guessed(guesser, {1, 2, 3}, 2), Tokens());
  EXPECT_EQ(Guessed(guesser, {1, 2, 3, 4, 5, 6}, 2), Tokens());
}

struct Record : TokenSink {
  std::vector<int32_t> tokens;
  Record() { tokens.reserve(256); }
  bool OnToken(const Sampled& sampled) override {
    tokens.push_back(sampled.token);
    return true;
  }
  void OnEnd(Finish) override {}
};

std::vector<int32_t> Prompt(int32_t count, int32_t seed) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back((i * 7 + seed * i * i + seed) % 49);
  return tokens;
}

Request Ask(int32_t i, double temperature, int64_t guesses, TokenSink& sink) {
  Request request;
  request.prompt = Prompt(5 + 9 * i, i);
  request.sampling.temperature = temperature;
  request.sampling.seed = 3;
  request.most_tokens = 30;
  request.guesses = guesses;
  request.sink = &sink;
  return request;
}

struct Outcome {
  std::vector<std::vector<int32_t>> answers;
  int64_t passes = 0, tokens = 0, guessed = 0, right = 0;
};

// Seven requests, three at a time; `draft_layers` 0: without guesses.
Outcome AnswerAll(int64_t draft_layers, double temperature) {
  const DecoderLimits limits = {
      .batch = 24, .outputs = 8, .cache = {.sequences = 3, .positions = 300}};
  TinyShape shape;
  LoadedTinyModel model(shape, limits, 2);
  std::unique_ptr<LoadedTinyModel> draft;
  std::unique_ptr<Guesser> guesser;
  if (draft_layers > 0) {
    shape.layers = draft_layers;
    draft = std::make_unique<LoadedTinyModel>(shape, limits, 1);
    guesser = std::make_unique<DraftGuesser>(draft->decoder(), 50);
  }
  Scheduler scheduler(model.decoder(), std::vector<bool>(50), std::move(guesser));
  std::vector<Record> records(7);
  for (int32_t i = 0; i < 7; ++i) {
    scheduler.Submit(
        Ask(i, temperature, draft_layers > 0 ? 5 : 0, records[static_cast<size_t>(i)]));
  }
  Outcome outcome;
  while (scheduler.Step()) ++outcome.passes;
  for (const Record& record : records) {
    outcome.answers.push_back(record.tokens);
    outcome.tokens += std::ssize(record.tokens);
  }
  outcome.guessed = scheduler.guessed_tokens();
  outcome.right = scheduler.right_guesses();
  return outcome;
}

TEST(DraftGuesser, ChangesNothingButTheNumberOfPasses) {
  for (const double temperature : {0.0, 0.3}) {
    const Outcome plain = AnswerAll(0, temperature);
    EXPECT_EQ(plain.guessed, 0);
    // The model itself is right but for rounding, one without its second layer now and then.
    for (const int64_t layers : {2, 1}) {
      const Outcome drafted = AnswerAll(layers, temperature);
      EXPECT_EQ(drafted.answers, plain.answers) << layers;
      EXPECT_GT(drafted.guessed, 0);
      EXPECT_LE(drafted.right, drafted.guessed);
      if (layers == 1) continue;
      EXPECT_LT(drafted.passes, plain.passes);
      if (temperature == 0) {
        EXPECT_GT(drafted.right, drafted.guessed * 9 / 10);
      }
    }
  }
}

TEST(DraftGuesser, AllocatesNothing) {
  if (!THINWIRE_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer owns the allocator";
  const DecoderLimits limits = {
      .batch = 16, .outputs = 6, .cache = {.sequences = 1, .positions = 128}};
  TinyShape shape;
  LoadedTinyModel model(shape, limits, 1);
  shape.layers = 1;
  LoadedTinyModel draft(shape, limits, 1);
  Scheduler scheduler(model.decoder(), std::vector<bool>(50),
                      std::make_unique<DraftGuesser>(draft.decoder(), 50));
  Record record;
  scheduler.Submit(Ask(4, 0, 4, record));
  scheduler.Step();
  Counter().count = 0;
  Counter().on = true;
  while (scheduler.Step()) {
  }
  Counter().on = false;
  EXPECT_EQ(Counter().count, 0);
  EXPECT_EQ(record.tokens.size(), 30u);
}

TEST(DraftModel, IsAPartOfTheEngineAndNeedsTheSameVocabulary) {
  io::TestDirectory directory;
  TinyShape shape;
  TinyModel(shape).Write(directory / "model.gguf");
  shape.layers = 1;
  TinyModel(shape).Write(directory / "draft.gguf");
  shape.vocabulary = 48;
  TinyModel(shape).Write(directory / "other.gguf");
  const EngineOptions options = {.threads = 1, .draft = directory / "draft.gguf"};
  Engine engine(directory / "model.gguf", options);
  Record record;
  engine.scheduler().Submit(Ask(3, 0, 4, record));
  while (engine.scheduler().Step()) {
  }
  EXPECT_GT(engine.scheduler().guessed_tokens(), 0);
  EXPECT_GT(engine.weight_bytes(), Engine(directory / "model.gguf", {.threads = 1}).weight_bytes());
  try {
    Engine(directory / "model.gguf", {.threads = 1, .draft = directory / "other.gguf"});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("48 tokens, the model has 50"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace thinwire::infer
