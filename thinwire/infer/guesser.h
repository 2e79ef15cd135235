// Guesses of the next tokens of sequences, which the scheduler checks several at a time in one
// pass. What is sampled does not depend on them: a wrong one costs its share of a pass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/infer/decoder.h"

namespace thinwire::infer {

struct GuessWanted {
  int64_t sequence = 0;
  std::vector<int32_t>* tokens = nullptr;  // all that is certain; guesses are appended
  int64_t most = 0;                        // of them; there is room for so many
};

class Guesser {
 public:
  virtual ~Guesser() = default;
  // For sequences that differ. May append fewer than `most`, or none.
  virtual void Guess(std::span<const GuessWanted> wanted) = 0;
};

// What followed the last time the latest kGuessedBy tokens stood in the sequence.
class RepeatGuesser final : public Guesser {
 public:
  static constexpr int64_t kGuessedBy = 3;
  void Guess(std::span<const GuessWanted> wanted) override;
};

// What a smaller model of the same vocabulary finds most likely, as long as it is sure enough. Its
// guesses of all sequences share passes.
class DraftGuesser final : public Guesser {
 public:
  // Of a guess. With a model's own weights in fewer bits as its draft 0.3 to 0.5 are about as fast,
  // and below 0.15 what is guessed costs more than it saves.
  static constexpr float kLeastProbability = 0.4f;

  // `draft` has room for as many sequences and positions as the model that checks, and logits of
  // as many rows as sequences. It must outlive this and is used by nobody else. Tokens from
  // `vocabulary` on are never guessed.
  DraftGuesser(Decoder& draft, int64_t vocabulary);

  void Guess(std::span<const GuessWanted> wanted) override;

 private:
  struct Open {
    GuessWanted wanted;
    size_t certain = 0;
    bool ready = false;  // its last token is in this pass
    bool done = false;
  };

  void Begin(std::span<const GuessWanted> wanted);
  // What the draft has not seen yet, as far as a pass goes. False where nothing is left.
  bool Collect();
  bool MakeRoom();
  void Take();

  Decoder& draft_;
  const int64_t vocabulary_;
  std::vector<std::vector<int32_t>> seen_;  // of each sequence, as the draft's cache has it
  std::vector<Open> open_;
  // Of the pass in progress.
  std::vector<int32_t> tokens_;
  std::vector<Segment> segments_;
  std::vector<int64_t> rows_;
};

}  // namespace thinwire::infer
