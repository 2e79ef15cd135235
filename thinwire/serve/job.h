// Work for the engine's thread, and what comes back from it to the thread of its client.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "thinwire/infer/grammar_constraint.h"
#include "thinwire/infer/scheduler.h"
#include "thinwire/infer/text_stream.h"

namespace thinwire::serve {

using Clock = std::chrono::steady_clock;

enum class Outcome : uint8_t { kUnfinished, kStop, kLength, kTimeout, kFailed };

class Job : public infer::TokenSink {
 public:
  explicit Job(Clock::time_point deadline) : deadline_(deadline) {}

  // On the engine's thread.
  virtual infer::Request MakeRequest() = 0;
  // Whether nobody wants the rest: the client is gone or its time is over.
  bool Unwanted() const { return gone_ || Clock::now() >= deadline_; }
  // Ends it from outside the scheduler: as kTimeout, or kFailed with a message for the client.
  void Abort();
  void Fail(const std::string& message);

  // On the client's thread: nobody waits for it any more.
  void Leave() { gone_ = true; }
  Outcome outcome() const;
  std::string failure() const;

 protected:
  void End(Outcome outcome);

  mutable std::mutex mutex_;
  std::condition_variable news_;
  Outcome outcome_ = Outcome::kUnfinished;
  std::string failure_;

 private:
  const Clock::time_point deadline_;
  std::atomic<bool> gone_{false};
};

struct TokenText {
  std::string bytes;
  float log_probability = 0;
};

struct AnswerToken : TokenText {
  std::vector<TokenText> likeliest;  // as many as asked for
};

// What came since the last look.
struct Piece {
  std::string text;
  std::vector<AnswerToken> tokens;
  Outcome outcome = Outcome::kUnfinished;
};

class Answer : public Job {
 public:
  struct Form {
    std::vector<std::string> stops;
    std::unique_ptr<infer::GrammarConstraint> constraint;  // none: any text will do
  };
  // `vocabulary` must outlive this.
  Answer(const text::Vocabulary& vocabulary, infer::Request request, Form form,
         Clock::time_point deadline);

  infer::Request MakeRequest() override;
  bool OnToken(const infer::Sampled& sampled) override;
  void OnEnd(infer::Finish finish) override;

  // Waits for news, `patience` at most.
  Piece Next(std::chrono::milliseconds patience);
  int64_t prompt_tokens() const { return prompt_tokens_; }
  // Of the answer so far.
  int64_t tokens() const;

 private:
  TokenText TextOf(const infer::TokenProbability& token) const;

  const text::Vocabulary& vocabulary_;
  infer::Request request_;
  const std::unique_ptr<infer::GrammarConstraint> constraint_;
  const int64_t prompt_tokens_;
  infer::TextStream stream_;
  Piece piece_;  // for Next
  int64_t tokens_ = 0;
};

// The mean of a text's hidden states, of length 1.
class Embedding : public Job, public infer::HiddenSink {
 public:
  Embedding(std::vector<int32_t> tokens, int64_t hidden, Clock::time_point deadline);

  infer::Request MakeRequest() override;
  void OnHidden(std::span<const float> state) override;
  bool OnToken(const infer::Sampled&) override { return false; }
  void OnEnd(infer::Finish finish) override;

  // Until it ends, `patience` at most; whether it did.
  bool Wait(std::chrono::milliseconds patience);
  // After it ended.
  std::vector<float> Vector() const;
  int64_t tokens() const { return count_; }

 private:
  std::vector<int32_t> prompt_;
  const int64_t count_;
  std::vector<double> sum_;
};

}  // namespace thinwire::serve
