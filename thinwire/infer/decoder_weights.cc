#include "thinwire/infer/decoder_weights.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>

#include "thinwire/base/error.h"

namespace thinwire::infer {
namespace {

// Read and packed in one go: small beside the weights, large beside the cost of a call.
constexpr int64_t kPieceBytes = 1 << 20;

// What is packed need not stay in memory.
class RowsOfFile : public TensorRows {
 public:
  RowsOfFile(const io::GgufFile& file, const io::GgufTensor& tensor)
      : file_(file),
        data_(tensor.data),
        row_bytes_(tensor.data.size() /
                   static_cast<size_t>(tensor.rank == 1 ? 1 : tensor.extents[0])) {}

  std::span<const std::byte> Rows(int64_t begin, int64_t end, int) override {
    return data_.subspan(static_cast<size_t>(begin) * row_bytes_,
                         static_cast<size_t>(end - begin) * row_bytes_);
  }
  void Packed(std::span<const std::byte> rows) override { file_.Drop(rows); }

 private:
  const io::GgufFile& file_;
  const std::span<const std::byte> data_;
  const size_t row_bytes_;
};

}  // namespace

// First everything is asked for by name, then memory is taken.
class DecoderWeights::Layout {
 public:
  explicit Layout(const io::GgufFile& file) : file_(file), used_(file.tensors().size()) {}

  bool Has(const std::string& name) const { return file_.FindTensor(name) != nullptr; }

  void Matrix(const std::string& name, int64_t rows, int64_t columns,
              blocks::PackedMatrix& matrix) {
    MatrixRows(Use(file_.Tensor(name, {rows, columns})), 0, rows, matrix);
  }

  // Rows [first, first + rows) of a tensor.
  void MatrixRows(const io::GgufTensor& tensor, int64_t first, int64_t rows,
                  blocks::PackedMatrix& matrix) {
    const std::string what = StrCat(file_.path(), ": ", tensor.name);
    const int64_t bytes = blocks::PackedMatrix::Bytes(tensor.type, rows, tensor.columns(), what);
    matrices_.push_back({.tensor = &tensor, .first = first, .rows = rows, .matrix = &matrix});
    plan_.Add("weights", bytes, matrices_.back().memory);
  }

  void Vector(const std::string& name, int64_t size, std::span<const float>& vector) {
    VectorPart(Use(file_.Tensor(name, {size})), 0, size, vector);
  }

  void VectorPart(const io::GgufTensor& tensor, int64_t first, int64_t size,
                  std::span<const float>& vector) {
    if (tensor.type != WeightType::kF32) {
      throw UsageError(StrCat(file_.path(), ": ", tensor.name, ": is ", NameOf(tensor.type),
                              "; vectors must be F32"));
    }
    vectors_.push_back({.tensor = &tensor, .first = first, .vector = &vector});
    plan_.Add("weights", size, vectors_.back().memory);
  }

  void Norm(const std::string& name, const DecoderSpec& spec, NormWeights& norm) {
    Vector(name + ".weight", spec.hidden, norm.weight);
    if (spec.norm == DecoderSpec::Norm::kLayer) Vector(name + ".bias", spec.hidden, norm.bias);
  }

  void Layer(const std::string& name, int64_t rows, int64_t columns, Linear& linear) {
    Matrix(name + ".weight", rows, columns, linear.weight);
    if (Has(name + ".bias")) Vector(name + ".bias", rows, linear.bias);
  }

  // Queries, keys and values as three matrices, or as one with the rows of all.
  void Attention(const std::string& block, const DecoderSpec& spec, LayerWeights& layer) {
    const std::string fused = block + "attn_qkv";
    if (!Has(fused + ".weight")) {
      Layer(block + "attn_q", spec.query_columns(), spec.hidden, layer.query);
      Layer(block + "attn_k", spec.kv_columns(), spec.hidden, layer.key);
      Layer(block + "attn_v", spec.kv_columns(), spec.hidden, layer.value);
      return;
    }
    const int64_t rows = spec.query_columns() + 2 * spec.kv_columns();
    const io::GgufTensor& weight = Use(file_.Tensor(fused + ".weight", {rows, spec.hidden}));
    const io::GgufTensor* const bias =
        Has(fused + ".bias") ? &Use(file_.Tensor(fused + ".bias", {rows})) : nullptr;
    int64_t first = 0;
    for (Linear* each : {&layer.query, &layer.key, &layer.value}) {
      const int64_t count = each == &layer.query ? spec.query_columns() : spec.kv_columns();
      MatrixRows(weight, first, count, each->weight);
      if (bias != nullptr) VectorPart(*bias, first, count, each->bias);
      first += count;
    }
  }

  // A tensor that nothing asked for means that the model is another one than what would run.
  void RefuseUnused() const {
    for (size_t i = 0; i < used_.size(); ++i) {
      if (!used_[i]) {
        throw UsageError(StrCat(file_.path(), ": tensor ", file_.tensors()[i].name,
                                " is not part of a model of architecture '",
                                file_.Get<std::string_view>("general.architecture"),
                                "' as it runs here"));
      }
    }
  }

  PlannedMemory Take(std::map<std::string, std::vector<Part>, std::less<>>& parts) {
    PlannedMemory memory = plan_.Take();
    for (const MatrixPlace& each : matrices_) {
      *each.matrix =
          blocks::PackedMatrix(each.tensor->type, each.rows, each.tensor->columns(), each.memory);
      parts[std::string(each.tensor->name)].push_back({each.first, *each.matrix, {}});
    }
    for (const VectorPlace& each : vectors_) {
      *each.vector = each.memory;
      parts[std::string(each.tensor->name)].push_back({each.first, {}, each.memory});
    }
    return memory;
  }

 private:
  struct MatrixPlace {
    const io::GgufTensor* tensor;
    int64_t first;
    int64_t rows;
    blocks::PackedMatrix* matrix;
    std::span<std::byte> memory = {};
  };
  struct VectorPlace {
    const io::GgufTensor* tensor;
    int64_t first;
    std::span<const float>* vector;
    std::span<float> memory = {};
  };

  const io::GgufTensor& Use(const io::GgufTensor& tensor) {
    used_[static_cast<size_t>(&tensor - file_.tensors().data())] = true;
    return tensor;
  }

  const io::GgufFile& file_;
  std::vector<bool> used_;
  MemoryPlan plan_;
  // Their elements must not move: the plan writes into them.
  std::deque<MatrixPlace> matrices_;
  std::deque<VectorPlace> vectors_;
};

DecoderWeights::DecoderWeights(const io::GgufFile& file, const DecoderSpec& spec) {
  Layout layout(file);
  layout.Matrix("token_embd.weight", spec.vocabulary, spec.hidden, embedding_);
  if (!spec.rotary) {
    layout.Matrix("position_embd.weight", spec.context, spec.hidden, positions_);
  }
  layers_.resize(static_cast<size_t>(spec.layers));
  for (int64_t i = 0; i < spec.layers; ++i) {
    LayerWeights& layer = layers_[static_cast<size_t>(i)];
    const std::string block = StrCat("blk.", i, ".");
    layout.Norm(block + "attn_norm", spec, layer.attention_norm);
    layout.Attention(block, spec, layer);
    layout.Layer(block + "attn_output", spec.hidden, spec.query_columns(), layer.output);
    layout.Norm(block + "ffn_norm", spec, layer.feed_norm);
    if (spec.gated) layout.Layer(block + "ffn_gate", spec.feed_forward, spec.hidden, layer.gate);
    layout.Layer(block + "ffn_up", spec.feed_forward, spec.hidden, layer.up);
    layout.Layer(block + "ffn_down", spec.hidden, spec.feed_forward, layer.down);
  }
  layout.Norm("output_norm", spec, output_norm_);
  const bool tied = !layout.Has("output.weight");
  if (!tied) layout.Layer("output", spec.vocabulary, spec.hidden, head_);
  if (spec.rotary && layout.Has("rope_freqs.weight")) {
    layout.Vector("rope_freqs.weight", spec.turned / 2, rotary_factors_);
  }
  layout.RefuseUnused();
  memory_ = layout.Take(parts_);
  if (tied) head_.weight = embedding_;
}

DecoderWeights::DecoderWeights(const io::GgufFile& file, const DecoderSpec& spec, ThreadTeam& team)
    : DecoderWeights(file, spec) {
  for (const io::GgufTensor& tensor : file.tensors()) {
    RowsOfFile rows(file, tensor);
    Set(tensor.name, rows, team);
  }
}

int64_t DecoderWeights::RowsAtOnce(int64_t row_bytes) {
  return std::max<int64_t>(1, kPieceBytes / (blocks::kGroupRows * row_bytes)) * blocks::kGroupRows;
}

void DecoderWeights::Set(std::string_view tensor, TensorRows& rows, ThreadTeam& team) {
  const auto found = parts_.find(tensor);
  THINWIRE_CHECK(found != parts_.end(), tensor);
  std::span<const std::byte> vector;
  for (const Part& part : found->second) {
    if (!part.vector.empty()) {
      if (vector.empty()) vector = rows.Rows(0, 1, 0);
      std::memcpy(part.vector.data(),
                  vector.data() + static_cast<size_t>(part.first) * sizeof(float),
                  part.vector.size_bytes());
      continue;
    }
    const int64_t piece = RowsAtOnce(part.matrix.row_bytes());
    team.Run(part.matrix.rows(), piece, [&](int64_t begin, int64_t end, int thread) {
      const auto source = rows.Rows(part.first + begin, part.first + end, thread);
      part.matrix.Pack(begin, source);
      rows.Packed(source);
    });
  }
}

}  // namespace thinwire::infer
