// Which tokens may come next, as openai/whisper's decoding has it: times come in pairs around each
// segment, never go back, and stand first; where all times together are more probable than any
// single token of text, a time comes next.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/context.h"
#include "thinwire/speech/vocabulary.h"

namespace thinwire::speech {

class TokenRules {
 public:
  // `vocabulary` must outlive this.
  explicit TokenRules(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  // Sets the logits of tokens that may not follow `tokens` (those of this window, without the
  // prompt) to -inf. Returns the logarithm of the sum of e^logit over the others: a token's
  // logarithmic probability is its logit less that.
  float Apply(const ExecContext& context, std::span<const int32_t> tokens,
              std::span<float> logits) const;

 private:
  // Times that may come next: [begin, end).
  struct Times {
    int32_t begin, end;
  };
  Times AllowedTimes(std::span<const int32_t> tokens) const;

  const Vocabulary& vocabulary_;
};

}  // namespace thinwire::speech
