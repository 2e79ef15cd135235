// Bodies of decoder_rows.h, compiled once per instruction set.
#include "thinwire/kernels/decoder_rows_isa.h"

#include "thinwire/kernels/native_vectors-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

// The last, partial vector of a row, filled up.
THINWIRE_INLINE V LoadRest(const float* x, int64_t rest, float fill) {
  float staged[kWidth];
  for (int64_t k = 0; k < kWidth; ++k) staged[k] = k < rest ? x[k] : fill;
  return Load(staged);
}

// Sum of body(vector) over the elements; the last, partial vector is filled with `fill`.
template <typename Body>
THINWIRE_INLINE float Sum(int64_t size, const float* x, float fill, const Body& body) {
  V sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * kWidth <= size; i += 4 * kWidth) {
    for (int64_t v = 0; v < 4; ++v) sums[v] += body(Load(x + i + v * kWidth));
  }
  for (; i + kWidth <= size; i += kWidth) sums[0] += body(Load(x + i));
  if (i < size) sums[1] += body(LoadRest(x + i, size - i, fill));
  return SumOfLanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// x[i] = body(load) for all elements, load(p) being the vector at p + i.
template <typename Body>
THINWIRE_INLINE void Map(int64_t size, float* out, const Body& body) {
  int64_t i = 0;
  for (; i + kWidth <= size; i += kWidth) {
    Store(out + i,
          body([i](const float* p) __attribute__((always_inline)) { return Load(p + i); }));
  }
  if (i == size) return;
  const int64_t rest = size - i;
  float staged[kWidth];
  Store(staged, body([ i, rest ](const float* p) __attribute__((always_inline)) {
          V v{};
          __builtin_memcpy(&v, p + i, static_cast<size_t>(rest) * sizeof(float));
          return v;
        }));
  __builtin_memcpy(out + i, staged, static_cast<size_t>(rest) * sizeof(float));
}

// (1 + erf(x / sqrt(2))) / 2 by formula 7.1.26 of Abramowitz and Stegun, whose absolute error is
// 1.5e-7 / 2 here: with z = |x| / sqrt(2) and t = 1 / (1 + 0.3275911 z), 1 - erf(z) = t (a1 + t (a2
// +
// ...)) e^(-z^2).
THINWIRE_INLINE V NormalDistribution(V x) {
  const V z = (x < 0.0f ? -x : x) * 0.70710678f;
  const V t = 1.0f / (1.0f + 0.3275911f * z);
  V p = t * 1.061405429f - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const V tail = 0.5f * p * t * Exp(-z * z);
  return x < 0.0f ? tail : 1.0f - tail;
}

template <Activation kActivation>
THINWIRE_INLINE V Activated(V x) {
  if constexpr (kActivation == Activation::kGeluErf) return x * NormalDistribution(x);
  if constexpr (kActivation == Activation::kSilu) return x / (1.0f + Exp(-x));
  if constexpr (kActivation == Activation::kRelu) return x > 0.0f ? x : V{};
  // 2 sqrt(2 / pi) = 1.5957691
  return x / (1.0f + Exp(-1.5957691f * (x + 0.044715f * x * x * x)));
}

template <Activation kActivation>
THINWIRE_INLINE void ActivateAll(int64_t size, const float* factor, float* x) {
  if (factor == nullptr) {
    Map(
        size, x, [=](auto load) __attribute__((always_inline)) {
          return Activated<kActivation>(load(x));
        });
  } else {
    Map(
        size, x, [=](auto load) __attribute__((always_inline)) {
          return Activated<kActivation>(load(x)) * load(factor);
        });
  }
}

}  // namespace

void RootMeanSquareNormRow(int64_t columns, const float* x, const float* weight, float eps,
                           float* y) {
  const float squares = Sum(
      columns, x, 0, [](V v) __attribute__((always_inline)) { return v * v; });
  const float inverse = 1.0f / __builtin_sqrtf(squares / static_cast<float>(columns) + eps);
  Map(
      columns, y, [=](auto load) __attribute__((always_inline)) {
        return load(x) * inverse * load(weight);
      });
}

void LayerNormRow(int64_t columns, const float* x, const float* weight, const float* bias,
                  float eps, float* y) {
  const float count = static_cast<float>(columns);
  const float mean = Sum(
                         columns, x, 0, [](V v) __attribute__((always_inline)) { return v; }) /
                     count;
  const float squares = Sum(
      columns, x,
      mean, [=](V v) __attribute__((always_inline)) { return (v - mean) * (v - mean); });
  const float inverse = 1.0f / __builtin_sqrtf(squares / count + eps);
  Map(
      columns, y, [=](auto load) __attribute__((always_inline)) {
        return (load(x) - mean) * inverse * load(weight) + load(bias);
      });
}

void ActivateRow(Activation activation, int64_t size, const float* factor, float* x) {
  switch (activation) {
    case Activation::kSilu:
      return ActivateAll<Activation::kSilu>(size, factor, x);
    case Activation::kGelu:
      return ActivateAll<Activation::kGelu>(size, factor, x);
    case Activation::kRelu:
      return ActivateAll<Activation::kRelu>(size, factor, x);
    case Activation::kGeluErf:
      return ActivateAll<Activation::kGeluErf>(size, factor, x);
  }
}

void AddRow(int64_t size, const float* y, float* x) {
  Map(
      size, x, [=](auto load) __attribute__((always_inline)) { return load(x) + load(y); });
}

float Largest(int64_t size, const float* x) {
  V largest[4] = {Splat(-__builtin_inff()), largest[0], largest[0], largest[0]};
  int64_t i = 0;
  for (; i + 4 * kWidth <= size; i += 4 * kWidth) {
    for (int64_t v = 0; v < 4; ++v) largest[v] = Larger(Load(x + i + v * kWidth), largest[v]);
  }
  for (; i < size; i += kWidth) {
    const bool whole = i + kWidth <= size;
    largest[0] =
        Larger(whole ? Load(x + i) : LoadRest(x + i, size - i, -__builtin_inff()), largest[0]);
  }
  return LargestOfLanes(Larger(Larger(largest[0], largest[1]), Larger(largest[2], largest[3])));
}

float SumOfExp(int64_t size, const float* x, float offset) {
  return Sum(
      size, x,
      -__builtin_inff(), [=](V v) __attribute__((always_inline)) { return Exp(v - offset); });
}

void RotateHeads(const RotaryShape& shape, const float* cosines, const float* sines, float* x) {
  const int64_t half = shape.turned / 2;
  const bool halves = shape.pairs == RotaryPairs::kHalves;
  for (int64_t head = 0; head < shape.heads; ++head, x += shape.dim) {
    int64_t i = 0;
    for (; halves && i + kWidth <= half; i += kWidth) {
      const V a = Load(x + i), b = Load(x + half + i), c = Load(cosines + i), s = Load(sines + i);
      Store(x + i, a * c - b * s);
      Store(x + half + i, b * c + a * s);
    }
    for (; i < half; ++i) {
      float& a = x[halves ? i : 2 * i];
      float& b = x[halves ? half + i : 2 * i + 1];
      const float turned = a * cosines[i] - b * sines[i];
      b = b * cosines[i] + a * sines[i];
      a = turned;
    }
  }
}

}  // namespace thinwire::kernels::THINWIRE_ISA
