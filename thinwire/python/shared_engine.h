// One engine for several threads of a program: their requests share its passes. Whoever waits for
// an answer runs the passes, so there is no thread that nobody asked for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/infer/chat.h"
#include "thinwire/infer/engine.h"
#include "thinwire/infer/grammar_constraint.h"
#include "thinwire/infer/text_stream.h"

namespace thinwire::python {

// Whoever came first goes first: a thread that runs pass after pass lets others enter requests.
class FairMutex {
 public:
  void lock();
  void unlock();

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  uint64_t next_ = 0;
  uint64_t served_ = 0;
};

class SharedEngine;

// A request of one caller. Ends with its caller's interest: what derives from it cancels it in its
// destructor, before a pass of another thread could find half of it gone.
class Work : public infer::TokenSink {
 public:
  bool OnToken(const infer::Sampled&) override { return false; }
  void OnEnd(infer::Finish) override { ended_ = true; }

 protected:
  void Leave();
  // It ended without the answer that it was to give, which RunUntil throws.
  void Fail(std::string why) { failure_ = std::move(why); }

 private:
  friend class SharedEngine;

  std::shared_ptr<SharedEngine> engine_;  // null before it is entered
  int64_t number_ = 0;
  bool ended_ = false;
  std::string failure_;  // of the pass that it was in
};

// An answer as text, token by token.
class AnswerWork final : public Work {
 public:
  // Without `constraint` any text will do.
  AnswerWork(const text::Vocabulary& vocabulary, std::vector<std::string> stops,
             std::unique_ptr<infer::GrammarConstraint> constraint);
  ~AnswerWork() override { Leave(); }

  bool OnToken(const infer::Sampled& sampled) override;
  void OnEnd(infer::Finish finish) override;

  // What came since the last call.
  std::string TakeText() { return std::exchange(fresh_, {}); }
  bool has_text() const { return !fresh_.empty(); }
  const std::string& text() const { return text_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  const std::vector<float>& log_probabilities() const { return log_probabilities_; }
  // "end": a token that ends answers; "stop": a stop text; "length": as long as was asked for, or
  // the context is full.
  std::string_view finish() const;
  infer::TokenConstraint* constraint() const { return constraint_.get(); }

 private:
  infer::TextStream stream_;
  const std::unique_ptr<infer::GrammarConstraint> constraint_;
  std::string text_, fresh_;
  std::vector<int32_t> tokens_;
  std::vector<float> log_probabilities_;
};

// The mean of a text's hidden states, of length 1.
class EmbeddingWork final : public Work, public infer::HiddenSink {
 public:
  explicit EmbeddingWork(int64_t hidden) : sum_(static_cast<size_t>(hidden)) {}
  ~EmbeddingWork() override { Leave(); }
  void OnHidden(std::span<const float> state) override;
  std::vector<float> Vector() const;

 private:
  std::vector<double> sum_;
};

// Log-probabilities of a text's tokens, from the second on.
class ScoreWork final : public Work, public infer::ScoreSink {
 public:
  ~ScoreWork() override { Leave(); }
  void OnScore(float log_probability) override { scores_.push_back(log_probability); }
  std::vector<float> Scores() const { return scores_; }

 private:
  std::vector<float> scores_;
};

class SharedEngine : public std::enable_shared_from_this<SharedEngine> {
 public:
  explicit SharedEngine(std::shared_ptr<infer::Engine> engine);

  const infer::Engine& engine() const { return *engine_; }

  // `request` without a sink. Throws UsageError as Scheduler::Submit does.
  void Enter(const std::shared_ptr<Work>& work, infer::Request request);
  // Passes until `done` says so, which is called between them with nothing running beside;
  // `breathe` is called now and then, may take its time, and ends the wait by throwing. Throws
  // UsageError where a pass failed that one of `works` was in.
  void RunUntil(std::span<const std::shared_ptr<Work>> works, const std::function<bool()>& done,
                const std::function<void()>& breathe);
  static bool Ended(const Work& work) { return work.ended_; }
  void Cancel(Work& work);

  // What the template of the file makes of messages. Throws UsageError as infer::Chat does.
  std::vector<int32_t> EncodeChat(std::span<const infer::ChatMessage> messages);
  std::vector<int32_t> Tokenize(std::string_view text, bool add_special, bool parse_special) const;
  // Throws UsageError for what is no token.
  std::string Detokenize(std::span<const int32_t> tokens, bool skip_special) const;

  // From here to Open its weights change: requests are refused, and what was computed so far is
  // forgotten. Throws UsageError while an answer is being written.
  void Close();
  void Open();

 private:
  // The threads that compute do not live on in a child process.
  void RefuseChild() const;
  void Step();

  const int process_;
  const std::shared_ptr<infer::Engine> engine_;
  mutable FairMutex mutex_;
  std::map<int64_t, Work*> live_;
  bool closed_ = false;
  std::optional<infer::Chat> chat_;
};

}  // namespace thinwire::python
