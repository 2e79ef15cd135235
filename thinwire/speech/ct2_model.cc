#include "thinwire/speech/ct2_model.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "thinwire/base/checked.h"
#include "thinwire/blocks/decode.h"

namespace thinwire::speech {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxJsonBytes = 64 << 20;

bool Exists(const std::string& folder, const std::string& name) {
  const std::vector<std::string> names = io::ListDirectory(io::RealFileSystem(), folder);
  return std::find(names.begin(), names.end(), name) != names.end();
}

Json ParseJson(const std::string& path) {
  const std::string text = io::ReadFile(io::RealFileSystem(), path, kMaxJsonBytes);
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw UsageError(path + ": is no JSON");
  return json;
}

std::vector<int32_t> Ids(const Json& config, const std::string& path, const char* key) {
  std::vector<int32_t> ids;
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return ids;
  if (!found->is_array()) throw UsageError(StrCat(path, ": ", key, " is no list"));
  for (const Json& id : *found) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX) {
      throw UsageError(StrCat(path, ": ", key, " holds what is no token"));
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

WeightType FloatTypeOf(const Ct2File& file, std::string_view name, const Ct2Tensor& tensor) {
  switch (tensor.type) {
    case Ct2Type::kF32:
      return WeightType::kF32;
    case Ct2Type::kF16:
      return WeightType::kF16;
    case Ct2Type::kBF16:
      return WeightType::kBF16;
    case Ct2Type::kI8:
    case Ct2Type::kI16:
    case Ct2Type::kI32:
      break;
  }
  throw UsageError(StrCat(file.path(), ": ", name,
                          " is stored in integers: take a model in float16 or float32"));
}

}  // namespace

Ct2Model::Ct2Model(const std::string& path) : WhisperModel(path), file_(path + "/model.bin") {
  if (file_.kind() != "WhisperSpec") {
    throw UsageError(StrCat(file_.path(), ": holds a ", file_.kind(), ", not a WhisperSpec"));
  }
  ReadSpec();
  ReadTokens();
  ReadConfig();
  CheckHeader();
  CheckTensors();
}

void Ct2Model::ReadSpec() {
  const auto extent = [this](std::string_view name, size_t rank, size_t at) {
    const Ct2Tensor& tensor = file_.Tensor(name);
    if (tensor.shape.size() != rank) {
      throw UsageError(
          StrCat(file_.path(), ": ", name, " has ", tensor.shape.size(), " extents, not ", rank));
    }
    return tensor.shape[at];
  };
  const auto layers = [this](const std::string& prefix) {
    int64_t count = 0;
    while (file_.Find(StrCat(prefix, count, "/ffn/linear_0/weight")) != nullptr) ++count;
    return count;
  };
  spec_.hidden = extent("encoder/conv1/weight", 3, 0);
  spec_.mels = extent("encoder/conv1/weight", 3, 1);
  spec_.audio_positions = extent("encoder/position_encodings/encodings", 2, 0);
  spec_.text_positions = extent("decoder/position_encodings/encodings", 2, 0);
  spec_.vocabulary = extent("decoder/embeddings/weight", 2, 0);
  spec_.feed_forward = extent("decoder/layer_0/ffn/linear_0/weight", 2, 0);
  spec_.encoder_heads = file_.Integer("encoder/num_heads");
  spec_.decoder_heads = file_.Integer("decoder/num_heads");
  spec_.encoder_layers = layers("encoder/layer_");
  spec_.decoder_layers = layers("decoder/layer_");
}

void Ct2Model::ReadTokens() {
  if (Exists(path_, "vocabulary.json")) {
    const std::string path = path_ + "/vocabulary.json";
    const Json json = ParseJson(path);
    if (!json.is_array()) throw UsageError(path + ": is no list");
    for (const Json& token : json) {
      if (!token.is_string()) throw UsageError(path + ": holds what is no token");
      tokens_.tokens.push_back(token.get<std::string>());
    }
    return;
  }
  const std::string text =
      io::ReadFile(io::RealFileSystem(), path_ + "/vocabulary.txt", kMaxJsonBytes);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    tokens_.tokens.push_back(text.substr(at, end - at));
    at = end + 1;
  }
}

void Ct2Model::ReadConfig() {
  const std::string path = path_ + "/config.json";
  const Json config = ParseJson(path);
  if (!config.is_object()) throw UsageError(path + ": is no object");
  tokens_.suppressed = Ids(config, path, "suppress_ids");
  tokens_.suppressed_first = Ids(config, path, "suppress_ids_begin");
}

void Ct2Model::CheckTensors() const {
  for (const WhisperTensor& tensor : tensors_) {
    const Ct2Tensor& stored = file_.Tensor(tensor.ct2_name);
    FloatTypeOf(file_, tensor.ct2_name, stored);
    std::vector<int64_t> shape = {tensor.rows, tensor.columns};
    if (tensor.kind == WhisperTensor::Kind::kConvolution) {
      shape = {tensor.rows, tensor.columns / 3, 3};
    } else if (tensor.kind == WhisperTensor::Kind::kVector) {
      shape = {tensor.columns};
    }
    // Of several matrices that stand in one tensor, the last tells how many rows it must have.
    const bool fits = stored.shape.size() == shape.size() &&
                      std::equal(stored.shape.begin() + 1, stored.shape.end(), shape.begin() + 1) &&
                      stored.shape[0] >= tensor.ct2_row + shape[0];
    if (!fits) {
      throw UsageError(StrCat(file_.path(), ": ", tensor.ct2_name, " is too small for ",
                              tensor.name, " of ", shape[0], " rows from ", tensor.ct2_row, " on"));
    }
  }
}

WeightType Ct2Model::TypeOf(const WhisperTensor& tensor) const {
  if (tensor.kind == WhisperTensor::Kind::kVector) return WeightType::kF32;
  return FloatTypeOf(file_, tensor.ct2_name, file_.Tensor(tensor.ct2_name));
}

void Ct2Model::Read(const WhisperTensor& tensor, int64_t first, int64_t rows,
                    std::span<std::byte> out) const {
  const Ct2Tensor& stored = file_.Tensor(tensor.ct2_name);
  const WeightType type = FloatTypeOf(file_, tensor.ct2_name, stored);
  const auto element = static_cast<size_t>(BlockBytes(type));
  const bool vector = tensor.kind == WhisperTensor::Kind::kVector;
  const auto width = static_cast<size_t>(tensor.columns);
  const size_t begin = vector ? static_cast<size_t>(tensor.ct2_row)
                              : static_cast<size_t>(tensor.ct2_row + first) * width;
  const std::span<const std::byte> source =
      stored.data.subspan(begin * element, static_cast<size_t>(rows) * width * element);
  if (vector) {
    blocks::Decode({}, type, source, {reinterpret_cast<float*>(out.data()), width});
    return;
  }
  THINWIRE_CHECK(out.size() >= source.size(), tensor.name);
  if (tensor.kind != WhisperTensor::Kind::kConvolution) {
    std::memcpy(out.data(), source.data(), source.size());
    return;
  }
  const size_t in = width / 3;
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    for (size_t i = 0; i < width; ++i) {
      const size_t step = i / in, channel = i % in;
      std::memcpy(out.data() + (row * width + i) * element,
                  source.data() + (row * width + channel * 3 + step) * element, element);
    }
  }
}

}  // namespace thinwire::speech
