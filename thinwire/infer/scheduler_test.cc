#include "thinwire/infer/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "thinwire/base/counted_malloc.h"
#include "thinwire/base/error.h"
#include "thinwire/infer/loaded_tiny_model.h"

namespace thinwire::infer {
namespace {

constexpr int32_t kEnd = 49;

class Loaded {
 public:
  explicit Loaded(const DecoderLimits& limits, bool ends = false, const TinyShape& shape = {})
      : model_(shape, limits, 2), scheduler_(model_.decoder(), Ends(model_.spec(), ends)) {}

  Scheduler* operator->() { return &scheduler_; }
  Decoder& decoder() { return model_.decoder(); }
  void RunAll() {
    while (scheduler_.Step()) {
    }
  }

 private:
  static std::vector<bool> Ends(const DecoderSpec& spec, bool ends) {
    std::vector<bool> last(static_cast<size_t>(spec.vocabulary));
    last[kEnd] = ends;
    return last;
  }

  LoadedTinyModel model_;
  Scheduler scheduler_;
};

struct Record : TokenSink {
  std::vector<int32_t> tokens;
  std::vector<float> log_probabilities;
  std::optional<Finish> finish;
  size_t stop_after = SIZE_MAX;

  Record() { tokens.reserve(256), log_probabilities.reserve(256); }
  bool OnToken(const Sampled& sampled) override {
    EXPECT_FALSE(finish.has_value());
    tokens.push_back(sampled.token);
    log_probabilities.push_back(sampled.log_probability);
    return tokens.size() < stop_after;
  }
  void OnEnd(Finish end) override {
    EXPECT_FALSE(finish.has_value());
    finish = end;
  }
};

std::vector<int32_t> Prompt(size_t count, size_t seed) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>((i * 7 + seed * i * i + seed) % 49));
  return tokens;
}

Request Ask(const std::vector<int32_t>& prompt, Record& record, double temperature = 0) {
  Request request;
  request.prompt = prompt;
  request.sampling.temperature = temperature;
  request.sampling.seed = prompt.size();
  request.most_tokens = 30;
  request.sink = &record;
  return request;
}

const DecoderLimits kOne = {.batch = 16, .outputs = 6, .cache = {.sequences = 1, .positions = 128}};

// What a request alone comes to.
Record Alone(const std::vector<int32_t>& prompt, double temperature = 0) {
  Loaded model(kOne);
  Record record;
  model->Submit(Ask(prompt, record, temperature));
  model.RunAll();
  return record;
}

TEST(Scheduler, GreedyTakesTheLikeliestTokenEachTime) {
  const std::vector<int32_t> prompt = Prompt(20, 1);
  const Record record = Alone(prompt);
  EXPECT_EQ(record.finish, Finish::kLength);
  ASSERT_EQ(record.tokens.size(), 30u);
  const TinyModel reference((TinyShape()));
  std::vector<int32_t> seen = prompt;
  for (size_t i = 0; i < 8; ++i) {
    const std::vector<double> logits = reference.Logits(seen);
    const auto best = std::ranges::max_element(logits);
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    ASSERT_EQ(record.tokens[i], best - logits.begin());
    EXPECT_NEAR(record.log_probabilities[i], *best - std::log(sum), 2e-2);
    seen.push_back(record.tokens[i]);
  }
}

TEST(Scheduler, RequestsThatShareTheDecoderDoNotMix) {
  for (const double temperature : {0.0, 1.0}) {
    Loaded model({.batch = 24, .outputs = 2, .cache = {.sequences = 3, .positions = 300}});
    std::array<Record, 7> records;
    for (size_t i = 0; i < records.size(); ++i) {
      model->Submit(Ask(Prompt(5 + 9 * i, i), records[i], temperature));
    }
    EXPECT_EQ(model->waiting(), 7);
    model->Step();
    EXPECT_EQ(model->running(), 3);
    model.RunAll();
    for (size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ(records[i].tokens, Alone(Prompt(5 + 9 * i, i), temperature).tokens) << i;
      EXPECT_EQ(records[i].finish, Finish::kLength);
    }
  }
}

TEST(Scheduler, HiddenStatesComeForEveryTokenOfAPromptWhateverRunsBeside) {
  struct States : HiddenSink {
    std::vector<std::vector<float>> rows;
    void OnHidden(std::span<const float> state) override {
      rows.emplace_back(state.begin(), state.end());
    }
  };
  Loaded model({.batch = 16, .outputs = 2, .cache = {.sequences = 2, .positions = 300}});
  const std::vector<int32_t> prompt = Prompt(40, 1);
  Record answer, end;
  States states;
  model->Submit(Ask(prompt, answer));
  for (int pass = 0; pass < 4; ++pass) model->Step();
  Request request = Ask(prompt, end);
  request.hidden = &states;
  model->Submit(request);
  model.RunAll();
  EXPECT_TRUE(end.tokens.empty());
  EXPECT_EQ(end.finish, Finish::kLength);
  EXPECT_EQ(answer.tokens, Alone(prompt).tokens);
  ASSERT_EQ(states.rows.size(), prompt.size());
  const TinyModel reference((TinyShape()));
  for (const size_t last : {0u, 17u, 39u}) {
    const auto seen = std::span(prompt).first(last + 1);
    const std::vector<double> hidden = reference.Hidden({seen.begin(), seen.end()});
    for (size_t i = 0; i < hidden.size(); ++i) {
      ASSERT_NEAR(states.rows[last][i], hidden[i], 2e-2) << last;
    }
  }
}

TEST(Scheduler, ScoresAreLogProbabilitiesOfThePromptWhateverRunsBeside) {
  struct Scores : ScoreSink {
    std::vector<float> values;
    void OnScore(float log_probability) override { values.push_back(log_probability); }
  };
  // Pieces of a prompt that end anywhere, rows of logits that go in no whole number into them.
  Loaded model({.batch = 15, .outputs = 4, .cache = {.sequences = 2, .positions = 300}});
  const std::vector<int32_t> prompt = Prompt(40, 1);
  Record answer, end;
  Scores scores;
  model->Submit(Ask(prompt, answer));
  for (int pass = 0; pass < 4; ++pass) model->Step();
  Request request = Ask(prompt, end);
  request.scores = &scores;
  model->Submit(request);
  model.RunAll();
  EXPECT_TRUE(end.tokens.empty());
  EXPECT_EQ(end.finish, Finish::kLength);
  EXPECT_EQ(answer.tokens, Alone(prompt).tokens);
  ASSERT_EQ(scores.values.size(), prompt.size() - 1);
  const TinyModel reference((TinyShape()));
  for (const size_t next : {1u, 14u, 15u, 16u, 39u}) {
    const auto seen = std::span(prompt).first(next);
    const std::vector<double> logits = reference.Logits({seen.begin(), seen.end()});
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    const double expected = logits[static_cast<size_t>(prompt[next])] - std::log(sum);
    EXPECT_NEAR(scores.values[next - 1], expected, 2e-2) << next;
  }
}

TEST(Scheduler, ForgetsWhatItKeeps) {
  Loaded model(kOne);
  const std::vector<int32_t> prompt = Prompt(20, 1);
  for (const int64_t reused : {0, 0, 19}) {
    Record record;
    if (reused == 0) model->Forget();
    model->Submit(Ask(prompt, record));
    model.RunAll();
    EXPECT_EQ(model->reused_tokens(), reused);
  }
}

// A draw is a function of seed and number, so a guess that is right is the token that would have
// come, and one that is wrong costs nothing but time.
TEST(Scheduler, GuessesChangeNothingButTheNumberOfPasses) {
  std::vector<int32_t> prompt = Prompt(8, 3);
  for (int i = 0; i < 3; ++i) prompt.insert(prompt.end(), prompt.begin(), prompt.begin() + 8);
  for (const double temperature : {0.0, 1.0}) {
    const Record expected = Alone(prompt, temperature);
    Loaded model(kOne);
    Record record;
    Request request = Ask(prompt, record, temperature);
    request.guesses = 5;
    model->Submit(request);
    model.RunAll();
    EXPECT_EQ(record.tokens, expected.tokens);
    EXPECT_EQ(record.finish, Finish::kLength);
  }
  // A model that repeats itself is guessed: fewer passes than tokens.
  Loaded model(kOne);
  Record record;
  Request request = Ask(prompt, record);
  request.sampling.logit_bias = {{7, 100.0f}};
  request.guesses = 5;
  model->Submit(request);
  int passes = 0;
  while (model->Step()) ++passes;
  EXPECT_EQ(record.tokens, std::vector<int32_t>(30, 7));
  EXPECT_LT(passes, 15);
}

// Even and odd tokens in turn, of the first 6 ones, up to a length.
struct EvenAndOdd : TokenConstraint {
  size_t length = 12;
  size_t stuck_at = SIZE_MAX;
  std::vector<int32_t> accepted;
  uint64_t allowed = 0;

  std::span<const uint64_t> Allowed() override {
    allowed = accepted.size() % 2 == 0 ? 0b010101 : 0b101010;
    return {&allowed, accepted.size() == stuck_at ? 0u : 1u};
  }
  void Accept(int32_t token) override { accepted.push_back(token); }
  bool Ended() const override { return accepted.size() == length; }
  int64_t Possible(std::span<const int32_t> tokens) override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool odd = (accepted.size() + i) % 2 != 0;
      if (tokens[i] >= 6 || (tokens[i] % 2 != 0) != odd) return static_cast<int64_t>(i);
    }
    return std::ssize(tokens);
  }
};

TEST(Scheduler, AConstraintHoldsWithAndWithoutGuesses) {
  std::vector<int32_t> prompt = Prompt(8, 3);
  for (int i = 0; i < 12; ++i) prompt.push_back(i % 6);
  for (const double temperature : {0.0, 1.0}) {
    std::array<std::vector<int32_t>, 2> answers;
    for (const int64_t guesses : {0, 5}) {
      Loaded model(kOne);
      Record record;
      EvenAndOdd constraint;
      Request request = Ask(prompt, record, temperature);
      request.guesses = guesses;
      request.constraint = &constraint;
      model->Submit(request);
      model.RunAll();
      EXPECT_EQ(record.finish, Finish::kEnd);
      ASSERT_EQ(record.tokens.size(), 12u);
      EXPECT_EQ(record.tokens, constraint.accepted);
      for (size_t i = 0; i < 12; ++i) {
        EXPECT_LT(record.tokens[i], 6);
        EXPECT_EQ(record.tokens[i] % 2, static_cast<int32_t>(i % 2));
      }
      answers[guesses == 0 ? 0 : 1] = record.tokens;
    }
    EXPECT_EQ(answers[0], answers[1]);
  }
}

TEST(Scheduler, AConstraintThatAllowsNothingEndsItsRequestOnly) {
  Loaded model({.batch = 24, .outputs = 2, .cache = {.sequences = 2, .positions = 256}});
  Record stuck, beside;
  EvenAndOdd constraint;
  constraint.stuck_at = 3;
  Request request = Ask(Prompt(5, 1), stuck);
  request.constraint = &constraint;
  model->Submit(request);
  model->Submit(Ask(Prompt(20, 1), beside));
  model.RunAll();
  EXPECT_EQ(stuck.finish, Finish::kStuck);
  EXPECT_EQ(stuck.tokens.size(), 3u);
  EXPECT_EQ(beside.tokens, Alone(Prompt(20, 1)).tokens);
  // A bias may leave nothing of what is allowed.
  EvenAndOdd odd;
  odd.accepted = {0};
  Record none;
  Request biased = Ask(Prompt(6, 1), none);
  biased.constraint = &odd;
  for (const int32_t token : {1, 3, 5}) {
    biased.sampling.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
  }
  model->Submit(biased);
  model.RunAll();
  EXPECT_EQ(none.finish, Finish::kStuck);
  EXPECT_TRUE(none.tokens.empty());
}

TEST(Scheduler, ASharedBeginningIsComputedOnce) {
  std::vector<int32_t> first = Prompt(50, 1), second = first;
  second.resize(60, 11);
  Loaded model({.batch = 24, .outputs = 2, .cache = {.sequences = 2, .positions = 256}});
  Record a, b, c;
  model->Submit(Ask(first, a));
  model->Step();
  model->Step();
  model->Step();  // 50 tokens are there, and the request goes on
  model->Submit(Ask(second, b));
  model->Step();
  EXPECT_EQ(model->reused_tokens(), 50);
  model.RunAll();
  EXPECT_EQ(a.tokens, Alone(first).tokens);
  EXPECT_EQ(b.tokens, Alone(second).tokens);
  // The same again: all but one token.
  model->Submit(Ask(second, c));
  model.RunAll();
  EXPECT_EQ(model->reused_tokens(), 50 + 59);
  EXPECT_EQ(c.tokens, b.tokens);
}

TEST(Scheduler, ARequestEndsForTheReasonItSays) {
  Loaded model(kOne, true);
  Record stopped;
  stopped.stop_after = 4;
  model->Submit(Ask(Prompt(10, 1), stopped));
  model.RunAll();
  EXPECT_EQ(stopped.finish, Finish::kStopped);
  EXPECT_EQ(stopped.tokens.size(), 4u);

  Record full;
  Request long_one = Ask(Prompt(120, 1), full);
  long_one.most_tokens = 1000;
  model->Submit(long_one);
  model.RunAll();
  EXPECT_EQ(full.finish, Finish::kLength);
  EXPECT_EQ(full.tokens.size(), 8u);  // 128 positions

  Record ended;
  Request request = Ask(Prompt(10, 1), ended);
  request.sampling.logit_bias = {{kEnd, 1000.0f}};
  model->Submit(request);
  model.RunAll();
  EXPECT_EQ(ended.finish, Finish::kEnd);
  EXPECT_TRUE(ended.tokens.empty());
}

TEST(Scheduler, CancelledRequestsAreHeardOfNoMore) {
  Loaded model(kOne);
  Record running, waiting, after;
  const int64_t first = model->Submit(Ask(Prompt(10, 1), running));
  const int64_t second = model->Submit(Ask(Prompt(10, 2), waiting));
  model->Submit(Ask(Prompt(10, 4), after));
  for (int i = 0; i < 5; ++i) model->Step();
  EXPECT_TRUE(model->Cancel(second));
  EXPECT_TRUE(model->Cancel(first));
  EXPECT_FALSE(model->Cancel(first));
  const size_t heard = running.tokens.size();
  model.RunAll();
  EXPECT_EQ(running.tokens.size(), heard);
  EXPECT_FALSE(running.finish || waiting.finish);
  EXPECT_TRUE(waiting.tokens.empty());
  EXPECT_EQ(after.tokens, Alone(Prompt(10, 4)).tokens);
}

// Room is promised before a request runs: none of them ever finds the cache full.
TEST(Scheduler, RequestsWaitForRoomInTheCache) {
  Loaded model({.batch = 24, .outputs = 2, .cache = {.sequences = 4, .positions = 128}});
  std::array<Record, 6> records;
  for (size_t i = 0; i < records.size(); ++i) model->Submit(Ask(Prompt(20 + i, i), records[i]));
  model->Step();
  EXPECT_EQ(model->running(), 1);  // 50 positions are 2 pages, and one for a copy, of 4
  model.RunAll();
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].tokens, Alone(Prompt(20 + i, i)).tokens) << i;
  }
}

TEST(Scheduler, WhatCanNeverRunIsRefused) {
  Loaded model(kOne);
  Record record;
  const auto refuses = [&](const Request& request) {
    EXPECT_THROW(model->Submit(request), UsageError);
  };
  refuses(Ask({}, record));
  refuses(Ask({50}, record));
  refuses(Ask({-1}, record));
  refuses(Ask(Prompt(128, 1), record));
  Request none = Ask({1}, record);
  none.most_tokens = 0;
  refuses(none);
  Request hot = Ask({1}, record);
  hot.sampling.temperature = -1;
  refuses(hot);
  EXPECT_EQ(model->waiting(), 0);
}

class SchedulerWith : public testing::TestWithParam<kernels::KvType> {};
INSTANTIATE_TEST_SUITE_P(Types, SchedulerWith,
                         testing::Values(kernels::KvType::kF32, kernels::KvType::kF16,
                                         kernels::KvType::kQ8_0),
                         [](const auto& of) { return std::string(kernels::NameOf(of.param)); });

// Prompts and answers, sampling and guesses.
TEST_P(SchedulerWith, NothingIsAllocatedWhileTokensAreMade) {
  if (!THINWIRE_COUNTS_ALLOCATIONS) GTEST_SKIP() << "not under a sanitizer";
  TinyShape shape;  // heads of 32, which every type of keys and values keeps
  shape.heads = 2;
  shape.kv_heads = 1;
  Loaded model(
      {.batch = 24, .outputs = 8, .cache = {.sequences = 2, .positions = 256, .type = GetParam()}},
      false, shape);
  std::array<Record, 2> records;
  for (size_t i = 0; i < records.size(); ++i) {
    Request request = Ask(Prompt(60 + i, i), records[i], 1);
    request.guesses = static_cast<int64_t>(3 * i);
    request.sampling.repetition_penalty = 1.1;
    model->Submit(request);
  }
  model->Step();  // takes the requests in
  Counter().on = true;
  int64_t passes = 0;
  while (records[0].tokens.size() < 25) {
    model->Step();
    ++passes;
  }
  Counter().on = false;
  EXPECT_GT(passes, 25);
  EXPECT_EQ(Counter().count.exchange(0), 0);
}

}  // namespace
}  // namespace thinwire::infer
