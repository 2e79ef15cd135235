#include "thinwire/kernels/decoder_rows.h"

#include <algorithm>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/kernels/decoder_rows_isa.h"

namespace thinwire::kernels {

void RootMeanSquareNorm(const ExecContext& context, RowShape shape, const float* x,
                        const float* weight, float eps, float* y) {
  const auto norm = THINWIRE_PICK(context.isa, RootMeanSquareNormRow);
  for (int64_t row = 0; row < shape.rows; ++row) {
    norm(shape.columns, x + row * shape.columns, weight, eps, y + row * shape.columns);
  }
}

void LayerNorm(const ExecContext& context, RowShape shape, const float* x, const float* weight,
               const float* bias, float eps, float* y) {
  const auto norm = THINWIRE_PICK(context.isa, LayerNormRow);
  for (int64_t row = 0; row < shape.rows; ++row) {
    norm(shape.columns, x + row * shape.columns, weight, bias, eps, y + row * shape.columns);
  }
}

void Activate(const ExecContext& context, Activation activation, std::span<float> x) {
  THINWIRE_PICK(context.isa, ActivateRow)
  (activation, static_cast<int64_t>(x.size()), nullptr, x.data());
}

void ActivateTimes(const ExecContext& context, Activation activation, std::span<float> x,
                   std::span<const float> factor) {
  THINWIRE_CHECK(x.size() == factor.size(), x.size(), " and ", factor.size());
  THINWIRE_PICK(context.isa, ActivateRow)
  (activation, static_cast<int64_t>(x.size()), factor.data(), x.data());
}

void AddTo(const ExecContext& context, std::span<const float> y, std::span<float> x) {
  THINWIRE_CHECK(x.size() == y.size(), x.size(), " and ", y.size());
  THINWIRE_PICK(context.isa, AddRow)(static_cast<int64_t>(x.size()), y.data(), x.data());
}

int64_t IndexOfLargest(const ExecContext& context, std::span<const float> x) {
  THINWIRE_CHECK(!x.empty());
  const float largest =
      THINWIRE_PICK(context.isa, Largest)(static_cast<int64_t>(x.size()), x.data());
  const auto found = std::ranges::find(x, largest);
  return found == x.end() ? 0 : found - x.begin();
}

float LogSumExp(const ExecContext& context, std::span<const float> x) {
  THINWIRE_CHECK(!x.empty());
  const auto size = static_cast<int64_t>(x.size());
  const float largest = THINWIRE_PICK(context.isa, Largest)(size, x.data());
  return largest + std::log(THINWIRE_PICK(context.isa, SumOfExp)(size, x.data(), largest));
}

void Rotate(const ExecContext& context, const RotaryShape& shape, const float* cosines,
            const float* sines, float* x) {
  THINWIRE_CHECK(shape.turned % 2 == 0 && shape.turned <= shape.dim, shape.turned, " of ",
                 shape.dim);
  THINWIRE_PICK(context.isa, RotateHeads)(shape, cosines, sines, x);
}

}  // namespace thinwire::kernels
