#include "thinwire/kernels/rotate_isa.h"

#include "thinwire/kernels/groups-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

constexpr int64_t kFloat = kElementBytes<F32Elements>;
constexpr int kLanes = static_cast<int>(sizeof(Vector) / sizeof(float));

// 1 / sqrt(width), to the nearest fp32.
THINWIRE_INLINE constexpr float FactorOf(int64_t width) {
  float factor = 1;
  for (; width >= 4; width /= 4) factor *= 0.5f;
  return width == 2 ? factor * 0x1.6a09e6p-1f : factor;
}

THINWIRE_INLINE Group Times(Group a, const Group& b) {
  for (int k = 0; k < kVectors; ++k) a.v[k] = a.v[k] * b.v[k];
  return a;
}

THINWIRE_INLINE Group FactorsOf(const Signs& signs, size_t group, float factor) {
  return Scaled(Load(F32Elements{},
                     reinterpret_cast<const std::byte*>(signs.values + group * size_t{kBlockUnit})),
                factor);
}

// The stages whose pairs lie in one register.
THINWIRE_INLINE Vector Transformed(Vector x) {
  if constexpr (kLanes > 1) x = Butterfly<1>(x);
  if constexpr (kLanes > 2) x = Butterfly<2>(x);
  if constexpr (kLanes > 4) x = Butterfly<4>(x);
  if constexpr (kLanes > 8) x = Butterfly<8>(x);
  return x;
}

template <int kStride>
THINWIRE_INLINE void Pairs(Group& x) {
#pragma GCC unroll 32
  for (int k = 0; k < kVectors; ++k) {
    if ((k & kStride) != 0) continue;
    const Vector a = x.v[k], b = x.v[k + kStride];
    x.v[k] = a + b;
    x.v[k + kStride] = a - b;
  }
}

THINWIRE_INLINE Group Transformed(Group x) {
#pragma GCC unroll 32
  for (int k = 0; k < kVectors; ++k) x.v[k] = Transformed(x.v[k]);
  if constexpr (kVectors > 1) Pairs<1>(x);
  if constexpr (kVectors > 2) Pairs<2>(x);
  if constexpr (kVectors > 4) Pairs<4>(x);
  if constexpr (kVectors > 8) Pairs<8>(x);
  if constexpr (kVectors > 16) Pairs<16>(x);
  return x;
}

THINWIRE_INLINE void PairOfGroups(Group& a, Group& b) {
  for (int k = 0; k < kVectors; ++k) {
    const Vector x = a.v[k], y = b.v[k];
    a.v[k] = x + y;
    b.v[k] = x - y;
  }
}

// A segment of kGroups x 32 elements.
template <size_t kGroups, bool kBack, typename Elements>
THINWIRE_INLINE void RotateGroups(const Signs& signs, Elements elements, const std::byte* in,
                                  std::byte* out) {
  constexpr size_t kUnit = kBlockUnit;
  constexpr float kFactor = FactorOf(int64_t{kGroups} * kBlockUnit);
  Group x[kGroups];
#pragma GCC unroll 4
  for (size_t g = 0; g < kGroups; ++g) {
    x[g] = Load(elements, in + g * kUnit * kElementBytes<Elements>);
    if (!kBack) x[g] = Times(x[g], FactorsOf(signs, g, kFactor));
    x[g] = Transformed(x[g]);
  }
  if constexpr (kGroups >= 2) PairOfGroups(x[0], x[1]);
  if constexpr (kGroups == 4) {
    PairOfGroups(x[2], x[3]);
    PairOfGroups(x[0], x[2]);
    PairOfGroups(x[1], x[3]);
  }
#pragma GCC unroll 4
  for (size_t g = 0; g < kGroups; ++g) {
    if (kBack) x[g] = Times(x[g], FactorsOf(signs, g, kFactor));
    Store(F32Elements{}, out + g * kUnit * sizeof(float), Canonical(x[g]));
  }
}

template <bool kBack, typename Elements>
void RotateSmall(const Signs& signs, int64_t width, const std::byte* in, std::byte* out) {
  const float factor = FactorOf(width);
  float x[kBlockUnit];
  for (int64_t i = 0; i < width; ++i) {
    x[i] = Elements::Load(in, i);
    if (!kBack) x[i] = x[i] * (signs.values[i] * factor);
  }
  for (int64_t d = 1; d < width; d *= 2) {
    for (int64_t i = 0; i < width; ++i) {
      if ((i & d) != 0) continue;
      const float a = x[i], b = x[i + d];
      x[i] = a + b;
      x[i + d] = a - b;
    }
  }
  for (int64_t i = 0; i < width; ++i) {
    if (kBack) x[i] = x[i] * (signs.values[i] * factor);
    F32Elements::Store(out, i, Canonical(x[i]));
  }
}

template <size_t kGroups, bool kBack, typename Elements>
int64_t RotateWhole(const Signs& signs, const std::byte* in, int64_t size, std::byte* out) {
  constexpr int64_t kWidth = int64_t{kGroups} * kBlockUnit;
  int64_t i = 0;
  for (; i + kWidth <= size; i += kWidth) {
    RotateGroups<kGroups, kBack>(signs, Elements{}, in + i * kElementBytes<Elements>,
                                 out + i * kFloat);
  }
  return i;
}

template <bool kBack, typename Elements>
void RotateRow(const Signs& signs, int64_t width, const std::byte* in, int64_t size,
               std::byte* out) {
  const auto at = [&](int64_t i) { return in + i * kElementBytes<Elements>; };
  int64_t i = 0;
  if (width == 4 * kBlockUnit) {
    i += RotateWhole<4, kBack, Elements>(signs, in, size, out);
    i += RotateWhole<2, kBack, Elements>(signs, at(i), size - i, out + i * kFloat);
  }
  i += RotateWhole<1, kBack, Elements>(signs, at(i), size - i, out + i * kFloat);
  for (int64_t small = kBlockUnit / 2; i < size; small /= 2) {
    if (size - i < small) continue;
    RotateSmall<kBack, Elements>(signs, small, at(i), out + i * kFloat);
    i += small;
  }
}

template <bool kBack, typename Elements>
void RotateRows(const Signs& signs, int64_t width, const Rows& rows, ConstArray in,
                std::byte* out) {
  int64_t size = 0;
  for (int64_t i = 0; i < in.size; i += size) {
    const int64_t row = i == 0 ? rows.first : rows.length;
    size = in.size - i < row ? in.size - i : row;
    RotateRow<kBack, Elements>(signs, width, in.data + i * kElementBytes<Elements>, size,
                               out + i * kFloat);
  }
}

}  // namespace

void RotateForth(const Signs& signs, int64_t width, const Rows& rows, ConstArray in,
                 std::byte* out) {
  WithElements(in.dtype, [&](auto elements) {
    RotateRows<false, decltype(elements)>(signs, width, rows, in, out);
  });
}

void RotateBack(const Signs& signs, int64_t width, const Rows& rows, ConstArray in,
                std::byte* out) {
  RotateRows<true, F32Elements>(signs, width, rows, in, out);
}

}  // namespace thinwire::kernels::THINWIRE_ISA
