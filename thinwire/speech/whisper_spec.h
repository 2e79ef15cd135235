// What a Whisper model is made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace thinwire::speech {

struct WhisperSpec {
  int64_t mels = 0;           // 80, or 128
  int64_t hidden = 0;         // width of encoder and decoder
  int64_t feed_forward = 0;   // width of their inner layers
  int64_t encoder_heads = 0;  // of hidden / heads elements
  int64_t decoder_heads = 0;  // the same
  int64_t encoder_layers = 0;
  int64_t decoder_layers = 0;
  int64_t audio_positions = 0;  // that the encoder makes: 1500, half as many as frames
  int64_t text_positions = 0;   // of the decoder: 448
  int64_t vocabulary = 0;

  int64_t frames() const { return 2 * audio_positions; }
};

// Throws UsageError naming `what` (a file) and what is out of range or does not fit the rest.
void CheckSpec(const WhisperSpec& spec, const std::string& what);

// A tensor of such a model. Names are those in GGUF files.
struct WhisperTensor {
  enum class Kind : uint8_t {
    kMatrix,       // of a product: may be stored in any type
    kTable,        // positions: F32, F16 or BF16
    kConvolution,  // [out][3 steps of time][in]: F32, F16 or BF16
    kVector,       // one row, F32
  };

  std::string name;
  Kind kind = Kind::kMatrix;
  int64_t rows = 1;
  int64_t columns = 0;
  // Where CTranslate2's files have it: rows of a tensor that may hold several matrices.
  std::string ct2_name = {};
  int64_t ct2_row = 0;
};

// All of them.
std::vector<WhisperTensor> TensorsOf(const WhisperSpec& spec);

}  // namespace thinwire::speech
