#include "thinwire/kernels/sum_isa.h"

#include "thinwire/kernels/elements-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

template <typename A, typename B>
void AddLoop(const std::byte* a, const std::byte* b, std::byte* out, int64_t size) {
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) {
    F32Elements::Store(out, i, Canonical(A::Load(a, i) + B::Load(b, i)));
  }
}

constexpr int64_t kLanes = 16;

}  // namespace

void Add(const std::byte* a, DType a_dtype, const std::byte* b, DType b_dtype, std::byte* out,
         int64_t size) {
  WithElements(a_dtype, [&](auto first) {
    WithElements(b_dtype,
                 [&](auto second) { AddLoop<decltype(first), decltype(second)>(a, b, out, size); });
  });
}

void Divide(float* x, float divisor, int64_t size) {
  for (int64_t i = 0; i < size; ++i) x[i] = Canonical(x[i] / divisor);
}

double SumOfSquares(const float* x, int64_t size) {
  double lanes[kLanes] = {};
  const int64_t whole = size - size % kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = static_cast<double>(x[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (int64_t i = whole; i < size; ++i) {
    const double value = static_cast<double>(x[i]);
    lanes[i - whole] += value * value;
  }
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0] == lanes[0] ? lanes[0] : __builtin_bit_cast(double, 0x7ff8000000000000u);
}

}  // namespace thinwire::kernels::THINWIRE_ISA
