// A Whisper model in a GGUF file. No other program has such files, so the keys are our own, after
// the manner of llama.cpp's models with an encoder:
//
//   general.architecture            "whisper"
//   whisper.mels, whisper.embedding_length, whisper.feed_forward_length, whisper.context_length
//   whisper.encoder.block_count, .head_count, .context_length
//   whisper.decoder.block_count, .head_count
//   whisper.suppressed_tokens, whisper.suppressed_first_tokens      arrays of i32
//   tokenizer.ggml.model            "gpt2", a byte-level vocabulary
//   tokenizer.ggml.tokens           all of them, special ones as they are written: "<|0.00|>"
#pragma once

#include <string>

#include "thinwire/io/gguf.h"
#include "thinwire/io/gguf_writer.h"
#include "thinwire/speech/whisper_model.h"

namespace thinwire::speech {

class GgufModel : public WhisperModel {
 public:
  explicit GgufModel(const std::string& path);

  WeightType TypeOf(const WhisperTensor& tensor) const override;
  void Read(const WhisperTensor& tensor, int64_t first, int64_t rows,
            std::span<std::byte> out) const override;
  void Drop(const WhisperTensor& tensor) const override;

 private:
  const io::GgufTensor& Stored(const WhisperTensor& tensor) const;

  io::GgufFile file_;
};

// What a file of `model` has besides its tensors.
void WriteMetadata(const WhisperModel& model, io::GgufWriter& writer);

}  // namespace thinwire::speech
