#include "thinwire/speech/whisper_spec.h"

#include <string_view>

#include "thinwire/base/error.h"

namespace thinwire::speech {
namespace {

// Beyond any model that was published; their products stay far below 2^63.
constexpr int64_t kMaxLayers = 128, kMaxWidth = 1 << 14, kMaxVocabulary = 1 << 20,
                  kMaxPositions = 1 << 14;
constexpr int64_t kBlock = 32;  // columns that matrices of products have a multiple of
constexpr int64_t kSteps = 3;   // of time under a convolution

void Require(const std::string& what, std::string_view name, int64_t value, int64_t low,
             int64_t high) {
  if (value < low || value > high) {
    throw UsageError(StrCat(what, ": ", name, ": ", low, " to ", high, " expected, found ", value));
  }
}

class List {
 public:
  explicit List(const WhisperSpec& spec) : spec_(spec) {}

  void Norm(const std::string& name, const std::string& ct2) {
    Vector(name + ".weight", spec_.hidden, ct2 + "/gamma", 0);
    Vector(name + ".bias", spec_.hidden, ct2 + "/beta", 0);
  }

  // Rows from `row` on of a linear layer of the other file.
  void Linear(const std::string& name, int64_t rows, int64_t columns, const std::string& ct2,
              int64_t row = 0, bool biased = true) {
    Add({.name = name + ".weight",
         .rows = rows,
         .columns = columns,
         .ct2_name = ct2 + "/weight",
         .ct2_row = row});
    if (biased) Vector(name + ".bias", rows, ct2 + "/bias", row);
  }

  void Convolution(const std::string& name, int64_t in, const std::string& ct2) {
    Add({.name = name + ".weight",
         .kind = WhisperTensor::Kind::kConvolution,
         .rows = spec_.hidden,
         .columns = kSteps * in,
         .ct2_name = ct2 + "/weight"});
    Vector(name + ".bias", spec_.hidden, ct2 + "/bias", 0);
  }

  void Table(const std::string& name, int64_t rows, const std::string& ct2) {
    Add({.name = name,
         .kind = WhisperTensor::Kind::kTable,
         .rows = rows,
         .columns = spec_.hidden,
         .ct2_name = ct2});
  }

  // Keys have no bias.
  void SelfAttention(const std::string& name, const std::string& ct2) {
    const int64_t width = spec_.hidden;
    Norm(name + "attn_norm", ct2 + "/layer_norm");
    Linear(name + "attn_q", width, width, ct2 + "/linear_0", 0);
    Linear(name + "attn_k", width, width, ct2 + "/linear_0", width, false);
    Linear(name + "attn_v", width, width, ct2 + "/linear_0", 2 * width);
    Linear(name + "attn_output", width, width, ct2 + "/linear_1");
  }

  void CrossAttention(const std::string& name, const std::string& ct2) {
    const int64_t width = spec_.hidden;
    Norm(name + "cross_attn_norm", ct2 + "/layer_norm");
    Linear(name + "cross_attn_q", width, width, ct2 + "/linear_0");
    Linear(name + "cross_attn_k", width, width, ct2 + "/linear_1", 0, false);
    Linear(name + "cross_attn_v", width, width, ct2 + "/linear_1", width);
    Linear(name + "cross_attn_output", width, width, ct2 + "/linear_2");
  }

  void FeedForward(const std::string& name, const std::string& ct2) {
    Norm(name + "ffn_norm", ct2 + "/layer_norm");
    Linear(name + "ffn_up", spec_.feed_forward, spec_.hidden, ct2 + "/linear_0");
    Linear(name + "ffn_down", spec_.hidden, spec_.feed_forward, ct2 + "/linear_1");
  }

  void Matrix(const std::string& name, int64_t rows, const std::string& ct2) {
    Add({.name = name, .rows = rows, .columns = spec_.hidden, .ct2_name = ct2});
  }

  std::vector<WhisperTensor> Take() { return std::move(tensors_); }

 private:
  void Vector(const std::string& name, int64_t size, const std::string& ct2, int64_t row) {
    Add({.name = name,
         .kind = WhisperTensor::Kind::kVector,
         .columns = size,
         .ct2_name = ct2,
         .ct2_row = row});
  }
  void Add(WhisperTensor tensor) { tensors_.push_back(std::move(tensor)); }

  const WhisperSpec& spec_;
  std::vector<WhisperTensor> tensors_;
};

}  // namespace

void CheckSpec(const WhisperSpec& spec, const std::string& what) {
  Require(what, "mels", spec.mels, 1, 512);
  Require(what, "width", spec.hidden, 1, kMaxWidth);
  Require(what, "feed-forward width", spec.feed_forward, 1, 4 * kMaxWidth);
  Require(what, "heads of the encoder", spec.encoder_heads, 1, spec.hidden);
  Require(what, "heads of the decoder", spec.decoder_heads, 1, spec.hidden);
  Require(what, "layers of the encoder", spec.encoder_layers, 1, kMaxLayers);
  Require(what, "layers of the decoder", spec.decoder_layers, 1, kMaxLayers);
  Require(what, "positions of sound", spec.audio_positions, 1, kMaxPositions);
  Require(what, "positions of text", spec.text_positions, 8, kMaxPositions);
  Require(what, "vocabulary", spec.vocabulary, 1, kMaxVocabulary);
  if (spec.hidden % spec.encoder_heads != 0 || spec.hidden % spec.decoder_heads != 0) {
    throw UsageError(StrCat(what, ": a width of ", spec.hidden, " does not divide into ",
                            spec.encoder_heads, " and ", spec.decoder_heads, " heads"));
  }
  if (spec.hidden % kBlock != 0 || spec.feed_forward % kBlock != 0) {
    throw UsageError(StrCat(what, ": widths of ", spec.hidden, " and ", spec.feed_forward,
                            "; multiples of ", kBlock, " expected"));
  }
}

std::vector<WhisperTensor> TensorsOf(const WhisperSpec& spec) {
  List list(spec);
  list.Convolution("enc.conv1", spec.mels, "encoder/conv1");
  list.Convolution("enc.conv2", spec.hidden, "encoder/conv2");
  list.Table("enc.position_embd.weight", spec.audio_positions,
             "encoder/position_encodings/encodings");
  for (int64_t i = 0; i < spec.encoder_layers; ++i) {
    const std::string name = StrCat("enc.blk.", i, "."), ct2 = StrCat("encoder/layer_", i);
    list.SelfAttention(name, ct2 + "/self_attention");
    list.FeedForward(name, ct2 + "/ffn");
  }
  list.Norm("enc.output_norm", "encoder/layer_norm");
  list.Matrix("dec.token_embd.weight", spec.vocabulary, "decoder/embeddings/weight");
  list.Table("dec.position_embd.weight", spec.text_positions,
             "decoder/position_encodings/encodings");
  for (int64_t i = 0; i < spec.decoder_layers; ++i) {
    const std::string name = StrCat("dec.blk.", i, "."), ct2 = StrCat("decoder/layer_", i);
    list.SelfAttention(name, ct2 + "/self_attention");
    list.CrossAttention(name, ct2 + "/attention");
    list.FeedForward(name, ct2 + "/ffn");
  }
  list.Norm("dec.output_norm", "decoder/layer_norm");
  return list.Take();
}

}  // namespace thinwire::speech
