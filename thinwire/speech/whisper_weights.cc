#include "thinwire/speech/whisper_weights.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "thinwire/base/error.h"

namespace thinwire::speech {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;
constexpr int64_t kColumns = 32;  // products take a multiple of it

}  // namespace

// First everything is asked for by name, then memory is taken, then it is filled.
class WhisperWeights::Loader {
 public:
  Loader(const WhisperModel& model, std::optional<WeightType> wanted, ThreadTeam& team)
      : model_(model), wanted_(wanted), team_(team) {
    for (const WhisperTensor& tensor : model.tensors()) tensors_.emplace(tensor.name, &tensor);
  }

  void Matrix(const std::string& name, blocks::PackedMatrix& matrix) {
    const WhisperTensor& tensor = *tensors_.at(name);
    const WeightType type = KeptType(tensor, model_.TypeOf(tensor), wanted_);
    const int64_t columns = (tensor.columns + kColumns - 1) / kColumns * kColumns;
    const std::string what = StrCat(model_.path(), ": ", name);
    matrices_.push_back({.tensor = &tensor,
                         .type = type,
                         .columns = columns,
                         .row_bytes = WeightBytes(type, tensor.columns, what),
                         .matrix = &matrix,
                         .memory = {}});
    plan_.Add("weights", blocks::PackedMatrix::Bytes(type, tensor.rows, columns, what),
              matrices_.back().memory);
  }

  void Vector(const std::string& name, std::span<const float>& vector) {
    const WhisperTensor& tensor = *tensors_.at(name);
    vectors_.push_back({.tensor = &tensor, .vector = &vector, .memory = {}});
    plan_.Add("weights", tensor.columns, vectors_.back().memory);
  }

  void Layer(const std::string& name, Linear& linear) {
    Matrix(name + ".weight", linear.weight);
    if (tensors_.contains(name + ".bias")) Vector(name + ".bias", linear.bias);
  }

  void Normal(const std::string& name, NormWeights& norm) {
    Vector(name + ".weight", norm.weight);
    Vector(name + ".bias", norm.bias);
  }

  void Attention(const std::string& name, AttentionWeights& weights) {
    Normal(name + "_norm", weights.norm);
    Layer(name + "_q", weights.query);
    Layer(name + "_k", weights.key);
    Layer(name + "_v", weights.value);
    Layer(name + "_output", weights.output);
  }

  void FeedForward(const std::string& block, FeedForwardWeights& weights) {
    Normal(block + "ffn_norm", weights.norm);
    Layer(block + "ffn_up", weights.up);
    Layer(block + "ffn_down", weights.down);
  }

  PlannedMemory Fill() {
    PlannedMemory memory = plan_.Take();
    for (const VectorJob& job : vectors_) {
      model_.Read(*job.tensor, 0, 1, std::as_writable_bytes(job.memory));
      *job.vector = job.memory;
    }
    for (const MatrixJob& job : matrices_) {
      Pack(job);
      model_.Drop(*job.tensor);
    }
    return memory;
  }

 private:
  struct MatrixJob {
    const WhisperTensor* tensor;
    WeightType type;
    int64_t columns;    // filled up
    int64_t row_bytes;  // as stored
    blocks::PackedMatrix* matrix;
    std::span<std::byte> memory;
  };
  struct VectorJob {
    const WhisperTensor* tensor;
    std::span<const float>* vector;
    std::span<float> memory;
  };

  void Pack(const MatrixJob& job) {
    *job.matrix = blocks::PackedMatrix(job.type, job.tensor->rows, job.columns, job.memory);
    const int64_t packed_bytes = job.matrix->row_bytes();
    const int64_t groups = std::max<int64_t>(1, kPieceBytes / packed_bytes / blocks::kGroupRows);
    std::string error;  // the team's functions must not throw
    team_.Run(job.tensor->rows, groups * blocks::kGroupRows, [&](int64_t begin, int64_t end, int) {
      try {
        PackRows(job, begin, end);
      } catch (const std::exception& e) {
        const std::lock_guard lock(mutex_);
        error = e.what();
      }
    });
    if (!error.empty()) throw UsageError(StrCat(model_.path(), ": ", error));
  }

  void PackRows(const MatrixJob& job, int64_t begin, int64_t end) {
    const auto packed_bytes = static_cast<size_t>(job.matrix->row_bytes());
    const auto row_bytes = static_cast<size_t>(job.row_bytes);
    const auto rows = static_cast<size_t>(end - begin);
    std::vector<std::byte> bytes(rows * packed_bytes);
    ReadAs(model_, *job.tensor, job.type, begin, end - begin,
           std::span(bytes).first(rows * row_bytes));
    // Rows move apart, the last one first; zeros come in between.
    for (size_t row = rows; packed_bytes != row_bytes && row-- > 0;) {
      std::byte* const to = bytes.data() + row * packed_bytes;
      std::memmove(to, bytes.data() + row * row_bytes, row_bytes);
      std::memset(to + row_bytes, 0, packed_bytes - row_bytes);
    }
    job.matrix->Pack(begin, bytes);
  }

  const WhisperModel& model_;
  const std::optional<WeightType> wanted_;
  ThreadTeam& team_;
  std::map<std::string, const WhisperTensor*> tensors_;
  MemoryPlan plan_;
  // Their elements must not move: the plan writes into them.
  std::deque<MatrixJob> matrices_;
  std::deque<VectorJob> vectors_;
  std::mutex mutex_;
};

WhisperWeights::WhisperWeights(const WhisperModel& model, std::optional<WeightType> wanted,
                               ThreadTeam& team) {
  Loader loader(model, wanted, team);
  loader.Layer("enc.conv1", conv1_);
  loader.Layer("enc.conv2", conv2_);
  loader.Matrix("enc.position_embd.weight", audio_positions_);
  encoder_.resize(static_cast<size_t>(model.spec().encoder_layers));
  for (size_t i = 0; i < encoder_.size(); ++i) {
    const std::string block = StrCat("enc.blk.", i, ".");
    loader.Attention(block + "attn", encoder_[i].self);
    loader.FeedForward(block, encoder_[i].feed);
  }
  loader.Normal("enc.output_norm", encoder_norm_);
  loader.Matrix("dec.token_embd.weight", embedding_.weight);
  loader.Matrix("dec.position_embd.weight", text_positions_);
  decoder_.resize(static_cast<size_t>(model.spec().decoder_layers));
  for (size_t i = 0; i < decoder_.size(); ++i) {
    const std::string block = StrCat("dec.blk.", i, ".");
    loader.Attention(block + "attn", decoder_[i].self);
    loader.Attention(block + "cross_attn", decoder_[i].cross);
    loader.FeedForward(block, decoder_[i].feed);
  }
  loader.Normal("dec.output_norm", decoder_norm_);
  memory_ = loader.Fill();
}

}  // namespace thinwire::speech
