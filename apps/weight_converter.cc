#include "apps/weight_converter.h"

#include <algorithm>
#include <exception>

#include "apps/importance.h"
#include "thinwire/base/checked.h"
#include "thinwire/blocks/decode.h"
#include "thinwire/blocks/encode.h"

namespace thinwire::app {
namespace {

constexpr int64_t kGrainElements = 1 << 15;  // by one thread at a time

template <typename T>
std::span<T> Part(std::span<T> all, int64_t begin, int64_t size) {
  return all.subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
}

// Rows begin..end, decoded in `values`, to `out`; each matrix has importances of its own.
void EncodeRowsOf(const ExecContext& context, const Conversion& conversion, int64_t begin,
                  int64_t end, std::span<const float> values, std::span<std::byte> out) {
  const io::GgufTensor& tensor = conversion.tensor;
  const int64_t columns = tensor.columns();
  const int64_t row_bytes = WeightBytes(conversion.type, columns, tensor.name);
  const int64_t matrix_rows = tensor.elements() / columns / MatricesOf(tensor);
  for (int64_t row = begin; row < end;) {
    const int64_t matrix = row / matrix_rows;
    const int64_t count = std::min(end, (matrix + 1) * matrix_rows) - row;
    const std::span<const float> importance =
        conversion.importance.empty() ? conversion.importance
                                      : Part(conversion.importance, matrix * columns, columns);
    blocks::Encode(context, conversion.type,
                   {.values = Part(values, (row - begin) * columns, count * columns),
                    .columns = columns,
                    .importance = importance,
                    .name = tensor.name,
                    .first_row = row},
                   Part(out, (row - begin) * row_bytes, count * row_bytes));
    row += count;
  }
}

}  // namespace

WeightConverter::WeightConverter(int threads)
    : team_(threads), scratch_(static_cast<size_t>(threads)) {}

std::span<const std::byte> WeightConverter::Convert(const Conversion& conversion, int64_t first,
                                                    int64_t rows, ConversionError& error) {
  const int64_t columns = conversion.tensor.columns();
  const int64_t row_bytes = WeightBytes(conversion.type, columns, conversion.tensor.name);
  out_.resize(static_cast<size_t>(CheckedMul(rows, row_bytes, conversion.tensor.name)));
  const int64_t grain = std::max<int64_t>(1, kGrainElements / columns);
  std::exception_ptr failure;
  team_.Run(rows, grain, [&](int64_t begin, int64_t end, int thread) {
    try {
      ConvertRows(conversion, first + begin, first + end,
                  Part(std::span(out_), begin * row_bytes, (end - begin) * row_bytes),
                  scratch_[static_cast<size_t>(thread)], error);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (failure == nullptr) failure = std::current_exception();
    }
  });
  if (failure != nullptr) std::rethrow_exception(failure);
  return out_;
}

void WeightConverter::ConvertRows(const Conversion& conversion, int64_t begin, int64_t end,
                                  std::span<std::byte> out, Scratch& scratch,
                                  ConversionError& error) {
  const io::GgufTensor& tensor = conversion.tensor;
  const auto elements = static_cast<size_t>((end - begin) * tensor.columns());
  const int64_t row_bytes = WeightBytes(tensor.type, tensor.columns(), tensor.name);
  scratch.values.resize(elements);
  blocks::Decode(context_, tensor.type,
                 Part(tensor.data, begin * row_bytes, (end - begin) * row_bytes), scratch.values);
  EncodeRowsOf(context_, conversion, begin, end, scratch.values, out);
  scratch.decoded.resize(elements);
  blocks::Decode(context_, conversion.type, out, scratch.decoded);
  double squares = 0;
  double missed = 0;
  for (size_t i = 0; i < elements; ++i) {
    const double value = double{scratch.values[i]};
    const double miss = value - double{scratch.decoded[i]};
    squares += value * value;
    missed += miss * miss;
  }
  const std::lock_guard lock(mutex_);
  error.squares += squares;
  error.missed += missed;
}

}  // namespace thinwire::app
