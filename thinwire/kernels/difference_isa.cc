#include "thinwire/kernels/difference_isa.h"

#include "thinwire/kernels/elements-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

template <typename A, typename B>
void SubtractLoop(const std::byte* a, const std::byte* b, std::byte* out, int64_t size) {
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) {
    F32Elements::Store(out, i, Canonical(A::Load(a, i) - B::Load(b, i)));
  }
}

template <typename Term, typename Sum>
void AddLoop(const std::byte* term, std::byte* sum, int64_t size) {
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) {
    Sum::Store(sum, i, Canonical(Sum::Load(sum, i) + Term::Load(term, i)));
  }
}

}  // namespace

void Subtract(const std::byte* a, DType a_dtype, const std::byte* b, DType b_dtype, float* out,
              int64_t size) {
  WithElements(a_dtype, [&](auto first) {
    WithElements(b_dtype, [&](auto second) {
      SubtractLoop<decltype(first), decltype(second)>(a, b, reinterpret_cast<std::byte*>(out),
                                                      size);
    });
  });
}

void AddTo(const std::byte* term, DType term_dtype, std::byte* sum, DType sum_dtype, int64_t size) {
  WithElements(term_dtype, [&](auto from) {
    WithElements(sum_dtype,
                 [&](auto to) { AddLoop<decltype(from), decltype(to)>(term, sum, size); });
  });
}

}  // namespace thinwire::kernels::THINWIRE_ISA
