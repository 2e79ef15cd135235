#include "thinwire/kernels/sum_isa.h"

#include "thinwire/kernels/elements-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

// A NaN on the way stays one, so it suffices to look at the end.
template <typename A, typename B, int kCount>
void AddLoop(const std::byte* a, const std::byte* const* b, std::byte* out, int64_t size) {
  const std::byte* const b0 = b[0];
  const std::byte* const b1 = kCount > 1 ? b[1] : nullptr;
  const std::byte* const b2 = kCount > 2 ? b[2] : nullptr;
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) {
    float sum = A::Load(a, i) + B::Load(b0, i);
    if constexpr (kCount > 1) sum += B::Load(b1, i);
    if constexpr (kCount > 2) sum += B::Load(b2, i);
    F32Elements::Store(out, i, Canonical(sum));
  }
}

constexpr int64_t kLanes = 16;

}  // namespace

void Add(const std::byte* a, DType a_dtype, const std::byte* const* b, int count, DType b_dtype,
         std::byte* out, int64_t size) {
  WithElements(a_dtype, [&](auto first) {
    WithElements(b_dtype, [&](auto rest) {
      using A = decltype(first);
      using B = decltype(rest);
      if (count == 1) return AddLoop<A, B, 1>(a, b, out, size);
      if (count == 2) return AddLoop<A, B, 2>(a, b, out, size);
      AddLoop<A, B, 3>(a, b, out, size);
    });
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
