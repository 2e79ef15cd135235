#include "thinwire/speech/gguf_model.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::speech {
namespace {

constexpr std::string_view kArchitecture = "whisper";
constexpr const char* kSuppressed = "whisper.suppressed_tokens";
constexpr const char* kSuppressedFirst = "whisper.suppressed_first_tokens";
constexpr const char* kTokens = "tokenizer.ggml.tokens";

constexpr std::array<std::pair<const char*, int64_t WhisperSpec::*>, 9> kNumbers = {{
    {"whisper.mels", &WhisperSpec::mels},
    {"whisper.embedding_length", &WhisperSpec::hidden},
    {"whisper.feed_forward_length", &WhisperSpec::feed_forward},
    {"whisper.context_length", &WhisperSpec::text_positions},
    {"whisper.encoder.block_count", &WhisperSpec::encoder_layers},
    {"whisper.encoder.head_count", &WhisperSpec::encoder_heads},
    {"whisper.encoder.context_length", &WhisperSpec::audio_positions},
    {"whisper.decoder.block_count", &WhisperSpec::decoder_layers},
    {"whisper.decoder.head_count", &WhisperSpec::decoder_heads},
}};

bool IsFloat(WeightType type) {
  return type == WeightType::kF32 || type == WeightType::kF16 || type == WeightType::kBF16;
}

// Whether a tensor of this kind may be stored so; a matrix may be in any way.
bool Fits(WhisperTensor::Kind kind, WeightType type) {
  if (kind == WhisperTensor::Kind::kMatrix) return true;
  return kind == WhisperTensor::Kind::kVector ? type == WeightType::kF32 : IsFloat(type);
}

}  // namespace

GgufModel::GgufModel(const std::string& path) : WhisperModel(path), file_(path) {
  const auto architecture = file_.Get<std::string_view>("general.architecture");
  if (architecture != kArchitecture) {
    throw UsageError(StrCat(path, ": is a model of architecture '", architecture, "', not '",
                            kArchitecture, "': `thinwire run` is for those that write text"));
  }
  for (const auto& [key, member] : kNumbers) spec_.*member = file_.GetInteger(key, 1, INT32_MAX);
  for (const std::string_view token : file_.GetStrings(kTokens)) {
    tokens_.tokens.emplace_back(token);
  }
  spec_.vocabulary = static_cast<int64_t>(tokens_.tokens.size());
  if (const auto ids = file_.FindArray<int32_t>(kSuppressed)) tokens_.suppressed = ids->ToVector();
  if (const auto ids = file_.FindArray<int32_t>(kSuppressedFirst)) {
    tokens_.suppressed_first = ids->ToVector();
  }
  CheckHeader();
  for (const WhisperTensor& tensor : tensors_) {
    const io::GgufTensor& stored = Stored(tensor);
    if (!Fits(tensor.kind, stored.type)) {
      throw UsageError(StrCat(path, ": ", tensor.name, ": is ", NameOf(stored.type),
                              ", which only matrices of products may be"));
    }
  }
}

const io::GgufTensor& GgufModel::Stored(const WhisperTensor& tensor) const {
  if (tensor.kind == WhisperTensor::Kind::kVector) {
    return file_.Tensor(tensor.name, {tensor.columns});
  }
  return file_.Tensor(tensor.name, {tensor.rows, tensor.columns});
}

WeightType GgufModel::TypeOf(const WhisperTensor& tensor) const { return Stored(tensor).type; }

void GgufModel::Read(const WhisperTensor& tensor, int64_t first, int64_t rows,
                     std::span<std::byte> out) const {
  const io::GgufTensor& stored = Stored(tensor);
  const auto row_bytes = stored.data.size() / static_cast<size_t>(tensor.rows);
  const auto source = stored.data.subspan(static_cast<size_t>(first) * row_bytes,
                                          static_cast<size_t>(rows) * row_bytes);
  THINWIRE_CHECK(out.size() >= source.size(), tensor.name);
  std::memcpy(out.data(), source.data(), source.size());
}

void GgufModel::Drop(const WhisperTensor& tensor) const { file_.Drop(Stored(tensor).data); }

void WriteMetadata(const WhisperModel& model, io::GgufWriter& writer) {
  writer.Set<std::string_view>("general.architecture", kArchitecture);
  for (const auto& [key, member] : kNumbers) {
    writer.Set<uint32_t>(key, static_cast<uint32_t>(model.spec().*member));
  }
  const WhisperTokens& tokens = model.tokens();
  writer.SetArray<int32_t>(kSuppressed, tokens.suppressed);
  writer.SetArray<int32_t>(kSuppressedFirst, tokens.suppressed_first);
  writer.Set<std::string_view>("tokenizer.ggml.model", "gpt2");
  writer.SetStrings(kTokens, tokens.tokens);
}

}  // namespace thinwire::speech
