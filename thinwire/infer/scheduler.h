// Many requests on one decoder: prompts in chunks and new tokens of all running requests share each
// pass (continuous batching), a request begins behind what another one already computed of the same
// prompt, and drafts of likely tokens are checked several at a time.
//
// A request's tokens do not depend on what runs beside it, but for rounding: passes of different
// sizes sum in different orders.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/infer/decoder.h"
#include "thinwire/infer/guesser.h"
#include "thinwire/infer/sampler.h"

namespace thinwire::infer {

enum class Finish : uint8_t {
  kEnd,      // a token that ends generation
  kLength,   // most_tokens, or the context is full
  kStopped,  // by the sink
  kStuck,    // no token goes on as the constraint wants it
};

// Receives the tokens of one request, on the thread that calls Step.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // False: no more. `Finish::kStopped` follows.
  virtual bool OnToken(const Sampled& sampled) = 0;
  // Last; the token that ended it was not given to OnToken.
  virtual void OnEnd(Finish finish) = 0;
};

// Receives what the model makes of each token of a prompt.
class HiddenSink {
 public:
  virtual ~HiddenSink() = default;
  // Of the next token: its last hidden state, normalized, [hidden].
  virtual void OnHidden(std::span<const float> state) = 0;
};

// Receives how likely each token of a prompt was.
class ScoreSink {
 public:
  virtual ~ScoreSink() = default;
  // Of the next token, the second of the prompt first, after those before it.
  virtual void OnScore(float log_probability) = 0;
};

// Which tokens may come next, as a grammar says. Used on the thread that calls Step.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // A bit for each token, as Sampler::Sample takes them. Empty: none may come, the answer ends.
  virtual std::span<const uint64_t> Allowed() = 0;
  // One of these came, and it does not end generation.
  virtual void Accept(int32_t token) = 0;
  // Whether all is said: the answer ends without a token that says so.
  virtual bool Ended() const = 0;
  // How many of `tokens`, from the first on, could come next.
  virtual int64_t Possible(std::span<const int32_t> tokens) = 0;
};

struct Request {
  std::vector<int32_t> prompt;  // at least one token
  SamplingOptions sampling;
  int64_t most_tokens = 256;
  // Tokens that are guessed and checked at once, at most. The result is the same, sooner or later.
  int64_t guesses = 0;
  TokenSink* sink = nullptr;              // outlives the request
  TokenConstraint* constraint = nullptr;  // the same; knows nothing of the prompt
  // The same. With it the prompt is all: each of its tokens is computed, none is sampled, and
  // `Finish::kLength` follows.
  HiddenSink* hidden = nullptr;
  ScoreSink* scores = nullptr;  // as `hidden`
  bool all_is_computed() const { return hidden != nullptr || scores != nullptr; }
};

class Scheduler {
 public:
  // `ends` says for each token whether it ends generation. `decoder` must outlive this, and is used
  // by nobody else. Sequences and positions are those of its cache. Without `guesser` guesses are
  // of what repeats itself.
  Scheduler(Decoder& decoder, std::vector<bool> ends, std::unique_ptr<Guesser> guesser = nullptr);

  // Puts a request into the queue; its number. Throws UsageError for one that can never run: no
  // prompt, a token out of range, longer than the whole cache.
  int64_t Submit(Request request);
  // Ends a request without another call of its sink. False when it is not there any more.
  bool Cancel(int64_t number);
  // Drops what is kept of earlier requests, for other weights. Nothing may be waiting or running.
  void Forget();

  // One pass. False when there is nothing to do.
  bool Step();

  int64_t running() const;
  int64_t waiting() const { return static_cast<int64_t>(queue_.size()); }
  // Of all prompts so far, tokens that did not have to be computed.
  int64_t reused_tokens() const { return reused_tokens_; }
  // Of all answers so far, tokens that were guessed and those that were right.
  int64_t guessed_tokens() const { return guessed_tokens_; }
  int64_t right_guesses() const { return right_guesses_; }

 private:
  struct Waiting {
    int64_t number;
    Request request;
  };
  // A sequence of the cache: with a request, or keeping what one computed for those to come.
  struct Slot {
    std::vector<int32_t> tokens;  // of prompt and answer; room for all positions beforehand
    int64_t number = -1;          // of its request; -1: none
    Request request;
    std::unique_ptr<Sampler> sampler;
    int64_t drawn = 0;     // tokens sampled
    int64_t guessed = 0;   // tokens at the end of `tokens` that are guesses
    int64_t reserved = 0;  // pages it may come to
    int64_t last_used = 0;
    bool active() const { return number >= 0; }
  };

  void Admit();
  bool TryAdmit(Waiting& waiting);
  void MakeRoom();
  int64_t PagesFor(const Request& request) const;
  void Guess();
  static void KeepPossible(Slot& slot);
  int64_t Collect();
  void SampleAll();
  void ShowComputed(const Segment& segment, int64_t end);
  void ShowScores(const Segment& segment, int64_t end);
  void SampleRows();
  static std::optional<Sampled> SampleNext(Slot& slot, std::span<float> logits, size_t known);
  void SampleSlot(int64_t index, std::span<float> logits);
  bool Take(Slot& slot, const Sampled& sampled);
  void End(Slot& slot, Finish finish);

  Decoder& decoder_;
  const std::vector<bool> ends_;
  std::unique_ptr<Guesser> guesser_;
  std::vector<Slot> slots_;
  std::deque<Waiting> queue_;
  int64_t next_number_ = 0;
  int64_t clock_ = 0;
  int64_t first_ = 0;  // the slot whose prompt is served first, in turn
  int64_t reused_tokens_ = 0;
  int64_t guessed_tokens_ = 0;
  int64_t right_guesses_ = 0;

  // Of the pass in progress; room for a whole batch beforehand.
  std::vector<int32_t> tokens_;
  std::vector<Segment> segments_;
  std::vector<GuessWanted> wanted_;
  // Rows of logits that are computed together, and the slots that they are of.
  std::vector<int64_t> rows_;
  std::vector<int64_t> sampled_slots_;
};

}  // namespace thinwire::infer
