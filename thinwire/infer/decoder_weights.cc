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

}  // namespace

// First everything is asked for by name, then memory is taken, then it is filled.
class DecoderWeights::Loader {
 public:
  Loader(const io::GgufFile& file, ThreadTeam& team)
      : file_(file), team_(team), used_(file.tensors().size()) {}

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
    const auto row_bytes = static_cast<size_t>(WeightBytes(tensor.type, tensor.columns(), what));
    matrices_.push_back({.tensor = &tensor,
                         .source = tensor.data.subspan(static_cast<size_t>(first) * row_bytes,
                                                       static_cast<size_t>(rows) * row_bytes),
                         .rows = rows,
                         .matrix = &matrix,
                         .memory = {}});
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
    vectors_.push_back({.source = tensor.data.subspan(static_cast<size_t>(first) * sizeof(float),
                                                      static_cast<size_t>(size) * sizeof(float)),
                        .vector = &vector,
                        .memory = {}});
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

  PlannedMemory Fill() {
    PlannedMemory memory = plan_.Take();
    for (const VectorJob& job : vectors_) {
      std::memcpy(job.memory.data(), job.source.data(), job.source.size());
      *job.vector = job.memory;
    }
    for (const MatrixJob& job : matrices_) Pack(job);
    return memory;
  }

 private:
  struct MatrixJob {
    const io::GgufTensor* tensor;
    std::span<const std::byte> source;
    int64_t rows;
    blocks::PackedMatrix* matrix;
    std::span<std::byte> memory;
  };
  struct VectorJob {
    std::span<const std::byte> source;
    std::span<const float>* vector;
    std::span<float> memory;
  };

  const io::GgufTensor& Use(const io::GgufTensor& tensor) {
    used_[static_cast<size_t>(&tensor - file_.tensors().data())] = true;
    return tensor;
  }

  void Pack(const MatrixJob& job) {
    *job.matrix =
        blocks::PackedMatrix(job.tensor->type, job.rows, job.tensor->columns(), job.memory);
    const int64_t row_bytes = job.matrix->row_bytes();
    const int64_t group_bytes = blocks::kGroupRows * row_bytes;
    const int64_t piece = std::max<int64_t>(1, kPieceBytes / group_bytes) * blocks::kGroupRows;
    team_.Run(job.rows, piece, [&](int64_t begin, int64_t end, int) {
      const auto source = job.source.subspan(static_cast<size_t>(begin * row_bytes),
                                             static_cast<size_t>((end - begin) * row_bytes));
      job.matrix->Pack(begin, source);
      file_.Drop(source);
    });
  }

  const io::GgufFile& file_;
  ThreadTeam& team_;
  std::vector<bool> used_;
  MemoryPlan plan_;
  // Their elements must not move: the plan writes into them.
  std::deque<MatrixJob> matrices_;
  std::deque<VectorJob> vectors_;
};

DecoderWeights::DecoderWeights(const io::GgufFile& file, const DecoderSpec& spec,
                               ThreadTeam& team) {
  Loader loader(file, team);
  loader.Matrix("token_embd.weight", spec.vocabulary, spec.hidden, embedding_);
  if (!spec.rotary) {
    loader.Matrix("position_embd.weight", spec.context, spec.hidden, positions_);
  }
  layers_.resize(static_cast<size_t>(spec.layers));
  for (int64_t i = 0; i < spec.layers; ++i) {
    LayerWeights& layer = layers_[static_cast<size_t>(i)];
    const std::string block = StrCat("blk.", i, ".");
    loader.Norm(block + "attn_norm", spec, layer.attention_norm);
    loader.Attention(block, spec, layer);
    loader.Layer(block + "attn_output", spec.hidden, spec.query_columns(), layer.output);
    loader.Norm(block + "ffn_norm", spec, layer.feed_norm);
    if (spec.gated) loader.Layer(block + "ffn_gate", spec.feed_forward, spec.hidden, layer.gate);
    loader.Layer(block + "ffn_up", spec.feed_forward, spec.hidden, layer.up);
    loader.Layer(block + "ffn_down", spec.hidden, spec.feed_forward, layer.down);
  }
  loader.Norm("output_norm", spec, output_norm_);
  const bool tied = !loader.Has("output.weight");
  if (!tied) loader.Layer("output", spec.vocabulary, spec.hidden, head_);
  if (spec.rotary && loader.Has("rope_freqs.weight")) {
    loader.Vector("rope_freqs.weight", spec.turned / 2, rotary_factors_);
  }
  loader.RefuseUnused();
  memory_ = loader.Fill();
  if (tied) head_.weight = embedding_;
}

}  // namespace thinwire::infer
