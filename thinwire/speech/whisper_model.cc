#include "thinwire/speech/whisper_model.h"

#include <algorithm>
#include <utility>

#include "thinwire/base/checked.h"
#include "thinwire/blocks/decode.h"
#include "thinwire/blocks/encode.h"
#include "thinwire/speech/ct2_model.h"
#include "thinwire/speech/gguf_model.h"

namespace thinwire::speech {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;

size_t BytesOf(const WhisperTensor& tensor, WeightType type, int64_t rows) {
  return static_cast<size_t>(
      WeightBytes(type, CheckedMul(rows, tensor.columns, tensor.name), tensor.name));
}

}  // namespace

std::unique_ptr<WhisperModel> WhisperModel::Open(const std::string& path) {
  if (io::IsDirectory(io::RealFileSystem(), path)) return std::make_unique<Ct2Model>(path);
  return std::make_unique<GgufModel>(path);
}

void WhisperModel::CheckHeader() {
  CheckSpec(spec_, path_);
  const auto count = static_cast<int64_t>(tokens_.tokens.size());
  if (count != spec_.vocabulary) {
    throw UsageError(
        StrCat(path_, ": the vocabulary has ", count, " tokens, the model ", spec_.vocabulary));
  }
  for (const auto* list : {&tokens_.suppressed, &tokens_.suppressed_first}) {
    for (const int32_t id : *list) {
      if (id < 0 || id >= count) {
        throw UsageError(StrCat(path_, ": token ", id, ", to be suppressed, is not among ", count));
      }
    }
  }
  tensors_ = TensorsOf(spec_);
}

WeightType KeptType(const WhisperTensor& tensor, WeightType stored,
                    std::optional<WeightType> wanted) {
  return tensor.kind == WhisperTensor::Kind::kMatrix ? wanted.value_or(stored) : stored;
}

void ReadAs(const WhisperModel& model, const WhisperTensor& tensor, WeightType type, int64_t first,
            int64_t rows, std::span<std::byte> out) {
  const WeightType stored = model.TypeOf(tensor);
  if (stored == type) {
    model.Read(tensor, first, rows, out);
    return;
  }
  std::vector<std::byte> bytes(BytesOf(tensor, stored, rows));
  std::vector<float> values(static_cast<size_t>(rows * tensor.columns));
  model.Read(tensor, first, rows, bytes);
  blocks::Decode({}, stored, bytes, values);
  blocks::Encode(
      {}, type,
      {.values = values, .columns = tensor.columns, .name = tensor.name, .first_row = first}, out);
}

void WriteGguf(const WhisperModel& model, std::optional<WeightType> wanted, io::FileSystem& fs,
               const std::string& path) {
  io::GgufWriter writer(fs, path);
  WriteMetadata(model, writer);
  for (const WhisperTensor& tensor : model.tensors()) {
    const WeightType type = KeptType(tensor, model.TypeOf(tensor), wanted);
    if (tensor.kind == WhisperTensor::Kind::kVector) {
      writer.Declare(tensor.name, type, {tensor.columns});
    } else {
      writer.Declare(tensor.name, type, {tensor.rows, tensor.columns});
    }
  }
  writer.Begin();
  std::vector<std::byte> piece;
  for (const WhisperTensor& tensor : model.tensors()) {
    const WeightType type = KeptType(tensor, model.TypeOf(tensor), wanted);
    const auto row_bytes = static_cast<int64_t>(BytesOf(tensor, type, 1));
    const int64_t step = std::max<int64_t>(1, kPieceBytes / row_bytes);
    for (int64_t row = 0; row < tensor.rows; row += step) {
      const int64_t rows = std::min(step, tensor.rows - row);
      piece.resize(static_cast<size_t>(rows * row_bytes));
      ReadAs(model, tensor, type, row, rows, piece);
      writer.Append(tensor.name, piece);
    }
    model.Drop(tensor);
  }
  writer.Finish();
}

}  // namespace thinwire::speech
