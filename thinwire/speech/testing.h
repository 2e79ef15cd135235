// For tests: a small Whisper model of random weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/blocks/encode.h"
#include "thinwire/speech/whisper_model.h"

namespace thinwire::speech {

constexpr int64_t kTestText = 40;  // tokens of text
constexpr int64_t kTestTimes = 1501;

// `size`: of the vocabulary, at least what the tokens below need. Fillers are text.
inline WhisperTokens TestTokens(size_t size = 0) {
  WhisperTokens tokens;
  std::vector<std::string> special = {"<|endoftext|>",   "<|startoftranscript|>", "<|en|>",
                                      "<|de|>",          "<|translate|>",         "<|transcribe|>",
                                      "<|startoflm|>",   "<|startofprev|>",       "<|nospeech|>",
                                      "<|notimestamps|>"};
  const size_t others = special.size() + size_t{kTestTimes};
  const size_t text = std::max(size_t{kTestText}, size > others ? size - others : 0);
  // A space and a word of two letters: "\u0120aa", "\u0120ab" ...
  for (size_t i = 0; i < text; ++i) {
    tokens.tokens.push_back(StrCat("\xc4\xa0", static_cast<char>('a' + i / 26 % 26),
                                   static_cast<char>('a' + i % 26), i < 676 ? "" : StrCat(i)));
  }
  tokens.tokens.insert(tokens.tokens.end(), special.begin(), special.end());
  for (int64_t i = 0; i < kTestTimes; ++i) {
    tokens.tokens.push_back(StrCat("<|", i / 50, ".", i % 50 < 5 ? "0" : "", i % 50 * 2, "|>"));
  }
  tokens.suppressed = {3, 7};
  tokens.suppressed_first = {5};
  return tokens;
}

inline WhisperSpec TestSpec() {
  return {.mels = 8,
          .hidden = 32,
          .feed_forward = 64,
          .encoder_heads = 2,
          .decoder_heads = 2,
          .encoder_layers = 2,
          .decoder_layers = 2,
          .audio_positions = 20,
          .text_positions = 16,
          .vocabulary = static_cast<int64_t>(TestTokens().tokens.size())};
}

class RandomModel : public WhisperModel {
 public:
  explicit RandomModel(const WhisperSpec& spec, WeightType type = WeightType::kF32,
                       WhisperTokens tokens = TestTokens())
      : WhisperModel("random"), type_(type) {
    spec_ = spec;
    tokens_ = std::move(tokens);
    CheckHeader();
  }

  WeightType TypeOf(const WhisperTensor& tensor) const override {
    return tensor.kind == WhisperTensor::Kind::kVector ? WeightType::kF32 : type_;
  }
  void Read(const WhisperTensor& tensor, int64_t first, int64_t rows,
            std::span<std::byte> out) const override {
    const std::vector<float> part = Values(tensor, first, rows);
    blocks::Encode({}, TypeOf(tensor), {.values = part, .columns = tensor.columns}, out);
  }
  void Drop(const WhisperTensor&) const override {}

  // Such that activations stay about 1; exact in fp16.
  std::vector<float> Values(const WhisperTensor& tensor, int64_t first, int64_t rows) const {
    std::vector<float> values(static_cast<size_t>(rows * tensor.columns));
    const CounterRandom random(HashBytes(tensor.name));
    const bool vector = tensor.kind == WhisperTensor::Kind::kVector;
    const bool norm = tensor.name.ends_with("norm.weight");
    const double scale = vector ? 0.2 : 1.5 / std::sqrt(static_cast<double>(tensor.columns));
    const auto begin = static_cast<uint64_t>(first * tensor.columns);
    for (size_t i = 0; i < values.size(); ++i) {
      const double x = scale * random.Normal(begin + i) + (norm ? 1 : 0);
      values[i] = static_cast<float>(std::round(x * 256) / 256);
    }
    return values;
  }
  std::vector<float> Values(const WhisperTensor& tensor) const {
    return Values(tensor, 0, tensor.rows);
  }
  std::vector<float> Values(const std::string& name) const {
    const auto found = std::ranges::find(tensors_, name, &WhisperTensor::name);
    THINWIRE_CHECK(found != tensors_.end(), name);
    return Values(*found);
  }

 private:
  WeightType type_;
};

}  // namespace thinwire::speech
