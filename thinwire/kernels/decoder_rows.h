// What a decoder computes row by row besides matrix products and attention, fp32, forward only.
// Sums run in the order of the vectors, so instruction sets differ in last bits; for training,
// which needs the same bits everywhere, see transformer_rows.h.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/context.h"
#include "thinwire/kernels/transformer_rows.h"

namespace thinwire::kernels {

// y = x / sqrt(mean(x^2) + eps) * weight. `y` may be `x`.
void RootMeanSquareNorm(const ExecContext& context, RowShape shape, const float* x,
                        const float* weight, float eps, float* y);
// y = (x - mean) / sqrt(variance + eps) * weight + bias. `y` may be `x`.
void LayerNorm(const ExecContext& context, RowShape shape, const float* x, const float* weight,
               const float* bias, float eps, float* y);

enum class Activation : uint8_t {
  kSilu,  // x / (1 + e^-x)
  kGelu,  // the tanh form of GPT-2: x / (1 + e^(-2 sqrt(2 / pi) (x + 0.044715 x^3)))
  kRelu,
  kGeluErf,  // x (1 + erf(x / sqrt(2))) / 2, as defined; within 2e-7 |x|
};
// In place.
void Activate(const ExecContext& context, Activation activation, std::span<float> x);
// x = activation(x) * factor, as long.
void ActivateTimes(const ExecContext& context, Activation activation, std::span<float> x,
                   std::span<const float> factor);

// x = x + y, as long.
void AddTo(const ExecContext& context, std::span<const float> y, std::span<float> x);

// The first index of the largest element; NaN is never larger. x is not empty.
int64_t IndexOfLargest(const ExecContext& context, std::span<const float> x);
// log of the sum of e^x[i]. x is not empty.
float LogSumExp(const ExecContext& context, std::span<const float> x);

// Which elements of a head rotary embedding turns together: i with i + n / 2, or 2 i with 2 i + 1.
enum class RotaryPairs : uint8_t { kHalves, kNeighbours };

// Turns the first `turned` (even) elements of each of `heads` heads of `dim` elements by the angles
// whose cosines and sines are given, turned / 2 of each.
struct RotaryShape {
  int64_t heads = 1;
  int64_t dim = 0;
  int64_t turned = 0;
  RotaryPairs pairs = RotaryPairs::kHalves;
};
void Rotate(const ExecContext& context, const RotaryShape& shape, const float* cosines,
            const float* sines, float* x);

}  // namespace thinwire::kernels
