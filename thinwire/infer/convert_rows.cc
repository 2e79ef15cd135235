#include "thinwire/infer/convert_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "thinwire/base/dtype.h"
#include "thinwire/base/error.h"
#include "thinwire/blocks/encode.h"
#include "thinwire/kernels/convert.h"

namespace thinwire::infer {
namespace {

DType DTypeOf(WeightType type) {
  return type == WeightType::kF32   ? DType::kF32
         : type == WeightType::kF16 ? DType::kF16
                                    : DType::kBF16;
}

// Row `to` of the result is row OriginOf(to) of the source.
int64_t OriginOf(const TensorRule& rule, int64_t to) {
  if (rule.order == RowOrder::kBehindTwo) return to + 2;
  if (rule.order != RowOrder::kNeighbours) return to;
  const int64_t head = rule.shape[0] / rule.heads;
  const int64_t within = to % head;
  return to - within + within / 2 + (within % 2) * (head / 2);
}

template <typename T>
void Transpose(std::span<const std::byte> bytes, size_t rows, size_t columns,
               std::span<std::byte> result) {
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      std::memcpy(&result[(c * rows + r) * sizeof(T)], &bytes[(r * columns + c) * sizeof(T)],
                  sizeof(T));
    }
  }
}

// The tensor in the order that GGUF has it in, still in the source's type.
std::span<const std::byte> Ordered(const TensorPlan& plan, std::span<const std::byte> source,
                                   std::vector<std::byte>& result) {
  const TensorRule& rule = plan.rule;
  if (rule.order == RowOrder::kSame) return source;
  const auto source_rows = static_cast<size_t>(rule.shape[0]);
  const size_t row_bytes = source.size() / source_rows;
  const int64_t rows = plan.shape[0];
  if (rule.order == RowOrder::kTransposed) {
    result.resize(source.size());
    const auto columns = static_cast<size_t>(rule.shape[1]);
    plan.from == WeightType::kF32 ? Transpose<uint32_t>(source, source_rows, columns, result)
                                  : Transpose<uint16_t>(source, source_rows, columns, result);
    return result;
  }
  result.resize(static_cast<size_t>(rows) * row_bytes);
  for (int64_t to = 0; to < rows; ++to) {
    const auto origin = static_cast<size_t>(OriginOf(rule, to));
    std::memcpy(&result[static_cast<size_t>(to) * row_bytes], &source[origin * row_bytes],
                row_bytes);
  }
  return result;
}

// fp16 ends at 65504; what is above it must not silently become inf.
void CheckFits(const TensorPlan& plan, std::span<const std::byte> source,
               std::span<const std::byte> converted) {
  if (plan.to != WeightType::kF16) return;
  const size_t size = plan.from == WeightType::kF32 ? sizeof(float) : sizeof(BF16);
  for (size_t i = 0; i < converted.size() / sizeof(FP16); ++i) {
    FP16 half;
    std::memcpy(&half, &converted[i * sizeof half], sizeof half);
    if (!std::isinf(ToFloat(half))) continue;
    float value = 0;  // a bf16 is the upper half of an fp32
    std::memcpy(reinterpret_cast<std::byte*>(&value) + (sizeof value - size), &source[i * size],
                size);
    if (std::isinf(value)) continue;
    throw UsageError(StrCat(plan.where, ": ", value, " does not fit F16; choose BF16 or F32"));
  }
}

}  // namespace

ConvertedRows::ConvertedRows(const TensorPlan& plan, std::span<const std::byte> source,
                             ConvertScratch& scratch)
    : plan_(plan),
      scratch_(scratch),
      ordered_(Ordered(plan, source, scratch.ordered)),
      rows_(plan.shape.size() < 2 ? 1 : plan.shape.front()),
      columns_(plan.shape.back()) {}

int64_t ConvertedRows::row_bytes() const { return WeightBytes(plan_.to, columns_, plan_.where); }

std::span<const std::byte> ConvertedRows::Rows(int64_t begin, int64_t end, int thread) {
  ConvertScratch::OfThread& scratch = scratch_.threads[static_cast<size_t>(thread)];
  if (plan_.from == plan_.to) {
    const auto bytes = static_cast<size_t>(row_bytes());
    return ordered_.subspan(static_cast<size_t>(begin) * bytes,
                            static_cast<size_t>(end - begin) * bytes);
  }
  scratch.rows.resize(static_cast<size_t>((end - begin) * row_bytes()));
  try {
    Convert(begin, end, scratch);
  } catch (...) {
    std::ranges::fill(scratch.rows, std::byte{0});
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
  return scratch.rows;
}

void ConvertedRows::Convert(int64_t begin, int64_t end, ConvertScratch::OfThread& scratch) const {
  const DType from = DTypeOf(plan_.from);
  const auto source_bytes = static_cast<size_t>(columns_ * SizeOf(from));
  const auto source = ordered_.subspan(static_cast<size_t>(begin) * source_bytes,
                                       static_cast<size_t>(end - begin) * source_bytes);
  const int64_t elements = (end - begin) * columns_;
  if (BlockElements(plan_.to) == 1) {
    kernels::Convert(scratch_.context, {source.data(), from, elements},
                     {scratch.rows.data(), DTypeOf(plan_.to), elements});
    CheckFits(plan_, source, scratch.rows);
    return;
  }
  scratch.values.resize(static_cast<size_t>(elements));
  kernels::Convert(
      scratch_.context, {source.data(), from, elements},
      {std::as_writable_bytes(std::span(scratch.values)).data(), DType::kF32, elements});
  blocks::Encode(
      scratch_.context, plan_.to,
      {.values = scratch.values, .columns = columns_, .name = plan_.where, .first_row = begin},
      scratch.rows);
}

void ConvertedRows::Check() const {
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace thinwire::infer
