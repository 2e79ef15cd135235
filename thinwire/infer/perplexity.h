// How well a model predicts a text.
//
// The text's tokens are cut into windows of `context` tokens, each beginning anew with the token
// that begins texts, where the model has one; the second half of a window counts, so that every
// token that counts has at least half a window before it. That is how llama.cpp's llama-perplexity
// counts, so numbers compare.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "thinwire/infer/decoder.h"

namespace thinwire::infer {

struct Perplexity {
  double sum = 0;      // of -log p(token)
  double squares = 0;  // of their squares
  int64_t tokens = 0;

  double value() const;           // e^(mean)
  double standard_error() const;  // of value()
};

// Who watches; what is empty is not called.
struct PerplexityWatch {
  // Before each window: its tokens.
  std::function<void(std::span<const int32_t> tokens)> window;
  // Logits after tokens of the window that foretell one that counts, [tokens][vocabulary], in
  // order.
  std::function<void(std::span<const float> logits)> logits;
  // After each window: all so far.
  std::function<void(const Perplexity&, int64_t done, int64_t windows)> progress;
};

// `begin` < 0: none. Uses sequence 0 of the cache, and no memory beyond what `decoder` has. Throws
// UsageError when the text has fewer tokens than two windows, or a window does not fit the cache.
Perplexity MeasurePerplexity(Decoder& decoder, std::span<const int32_t> tokens, int32_t begin,
                             int64_t context, const PerplexityWatch& watch);

}  // namespace thinwire::infer
