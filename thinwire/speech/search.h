// The tokens for a window of sound: by a beam, or drawn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/speech/decoder.h"
#include "thinwire/speech/token_rules.h"
#include "thinwire/speech/vocabulary.h"

namespace thinwire::speech {

struct SearchResult {
  std::span<const int32_t> tokens;  // valid until the next Run; without the end of text
  double mean_log_probability = 0;  // per token, the end of text among them
};

class Search {
 public:
  // The sequences that a decoder needs for `width` hypotheses at once.
  static DecoderLimits LimitsFor(int64_t width) {
    return {.sequences = 2 * width + 1, .running = width + 1};  // one holds the prompt
  }

  // `decoder`, of those limits, and `vocabulary` must outlive this.
  Search(Decoder& decoder, const Vocabulary& vocabulary, int64_t width);
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  // The most tokens of a window: what half of the decoder's positions leave.
  int64_t max_tokens() const { return max_tokens_; }

  // Reads the prompt, at most half of the decoder's positions. Returns the probability that there
  // is no speech, as the token at `start` (<|startoftranscript|>) says.
  double Begin(std::span<const int32_t> prompt, int64_t start);
  // The most probable language after Begin with a prompt that ends in <|startoftranscript|>.
  int32_t Language();
  // What follows the prompt; may be called several times. temperature 0: the best that a beam of
  // `width` finds, where candidates are ranked by their mean logarithmic probability. Above: the
  // best of `width` drawn ones, from probabilities to the power of 1 / temperature; the same for
  // the same seed. Allocates nothing, as Begin.
  SearchResult Run(double temperature, uint64_t seed);

 private:
  struct Hypothesis {
    double score = 0;  // sum of logarithmic probabilities
    int64_t sequence = 0;
    int64_t length = 0;
  };
  struct Candidate {
    double score;
    size_t parent;
    int32_t token;
  };

  std::span<int32_t> TokensOf(int64_t sequence) {
    return std::span(tokens_).subspan(static_cast<size_t>(sequence * max_tokens_),
                                      static_cast<size_t>(max_tokens_));
  }
  std::span<const int32_t> TokensOf(const Hypothesis& h) {
    return TokensOf(h.sequence).first(static_cast<size_t>(h.length));
  }
  void Reset(int64_t copies);
  // Logits after the last token of each live hypothesis; after the prompt where they have none.
  std::span<float> Logits();
  void CollectBest(std::span<float> logits);
  void CollectDrawn(std::span<float> logits, double temperature, uint64_t seed);
  // Of the logits of live hypothesis `parent`.
  void KeepBest(size_t parent, std::span<const float> logits, double offset);
  void Advance();
  void Finish(const Hypothesis& hypothesis, double score);
  SearchResult Best();

  Decoder& decoder_;
  const Vocabulary& vocabulary_;
  const TokenRules rules_;
  const int64_t width_;
  const int64_t max_tokens_;
  int64_t prompt_length_ = 0;
  std::vector<float> prompt_logits_;  // after the prompt
  std::vector<int32_t> tokens_;       // [sequence][max_tokens_]
  std::vector<Hypothesis> live_, next_;
  std::vector<Candidate> candidates_, best_;
  std::vector<int64_t> free_;  // sequences of the decoder that no live hypothesis has
  std::vector<int32_t> feed_;
  std::vector<Segment> segments_;
  std::vector<int64_t> rows_;
  // The ended hypotheses: score, length and [hypothesis][max_tokens_].
  struct Ended {
    double score;
    int64_t length;
  };
  std::vector<Ended> ended_;
  std::vector<int32_t> ended_tokens_;
};

}  // namespace thinwire::speech
