#include "thinwire/infer/live_model.h"

#include <algorithm>

#include "thinwire/base/checked.h"
#include "thinwire/base/error.h"
#include "thinwire/io/gguf.h"

namespace thinwire::infer {
namespace {

// All of a small tensor.
class WholeRow : public TensorRows {
 public:
  explicit WholeRow(std::span<const std::byte> data) : data_(data) {}
  std::span<const std::byte> Rows(int64_t, int64_t, int) override { return data_; }
  void Packed(std::span<const std::byte>) override {}

 private:
  const std::span<const std::byte> data_;
};

}  // namespace

LiveModel::LiveModel(io::FileSystem& fs, const ModelSource& source, const ConvertOptions& options,
                     const EngineOptions& engine)
    : scratch_(1) {
  io::GgufWriter writer(fs, source.name());
  plan_ = PlanConversion(source, options, writer);
  engine_ = std::make_unique<Engine>(io::GgufFile(source.name(), writer.Describe()), engine);
  scratch_ = ConvertScratch(engine_->threads());
  for (const TensorPlan& tensor : plan_.tensors) {
    places_.emplace(tensor.rule.source, &tensor);
    if (tensor.from != tensor.to) Reserve(tensor);
  }
  if (!plan_.frequency_factors.empty()) {
    WholeRow row(std::as_bytes(std::span(plan_.frequency_factors)));
    engine_->weights().Set(kFrequencyFactors, row, engine_->team());
  }
}

// Any thread may come to convert any rows.
void LiveModel::Reserve(const TensorPlan& tensor) {
  const int64_t columns = tensor.shape.back();
  const int64_t row_bytes = WeightBytes(tensor.to, columns, tensor.where);
  const int64_t rows = std::min(tensor.shape.front(), DecoderWeights::RowsAtOnce(row_bytes));
  for (ConvertScratch::OfThread& scratch : scratch_.threads) {
    scratch.values.reserve(static_cast<size_t>(rows * columns));
    scratch.rows.reserve(static_cast<size_t>(rows * row_bytes));
  }
}

void LiveModel::Begin() {
  for (const auto& [name, tensor] : places_) missing_.insert(name);
}

void LiveModel::Set(const std::string& source, std::span<const float> values) {
  const auto found = places_.find(source);
  THINWIRE_CHECK(found != places_.end(), source);
  const TensorPlan& plan = *found->second;
  const int64_t elements = CheckedNumel(plan.rule.shape, plan.where);
  if (std::ssize(values) != elements) {
    throw UsageError(
        StrCat(plan.where, ": ", elements, " elements expected, found ", values.size()));
  }
  ConvertedRows rows(plan, std::as_bytes(values), scratch_);
  engine_->weights().Set(plan.rule.target, rows, engine_->team());
  rows.Check();
  missing_.erase(source);
}

void LiveModel::End() {
  if (!missing_.empty()) {
    throw UsageError(StrCat(engine_->path(), ": tensor \"", *missing_.begin(), "\" was not set"));
  }
}

}  // namespace thinwire::infer
