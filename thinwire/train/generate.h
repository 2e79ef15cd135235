// Text from a checkpoint: full weights in one process, a cache of keys and values, sampling.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/random.h"
#include "thinwire/train/llama_config.h"

namespace thinwire::train {

struct SamplingOptions {
  double temperature = 0.8;  // 0: always the likeliest token
  int64_t top_k = 40;        // only the k likeliest; 0: all
  uint64_t seed = 1;
};

// The token that is drawn at `index` of a text. Logits beyond the first `kByteVocabulary` were
// never trained and must not be given.
int64_t SampleToken(std::span<const float> logits, const SamplingOptions& options, int64_t index);

class Generator {
 public:
  // Reads the newest checkpoint in `path`. Throws UsageError.
  explicit Generator(const std::string& path);
  ~Generator();

  const std::string& checkpoint() const;

  // Calls `out` with each byte that follows `prompt`, until `tokens` were written, the model ends
  // the document, or `out` returns false. Past the sequence length that the model was trained on it
  // looks back at the last half of it or more.
  void Generate(std::string_view prompt, int64_t tokens, const SamplingOptions& options,
                const std::function<bool(char)>& out);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace thinwire::train
