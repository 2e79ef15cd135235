// Bodies of transformer_rows.h, compiled once per instruction set. Vectors of 16 floats in the
// compiler's own notation: it lowers them to what the instruction set has, with the same bits.
#include "thinwire/kernels/exp-inl.h"
#include "thinwire/kernels/transformer_rows_table.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors never cross a function that is not inlined

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

constexpr int64_t kLanes = 16;
using F = float __attribute__((vector_size(64)));
using U = uint32_t __attribute__((vector_size(64)));
using H = uint16_t __attribute__((vector_size(32)));

THINWIRE_INLINE F Splat(float x) { return F{} + x; }
THINWIRE_INLINE U Bits(F v) {
  U bits;
  __builtin_memcpy(&bits, &v, sizeof(bits));
  return bits;
}
THINWIRE_INLINE F FromBits(U bits) {
  F v;
  __builtin_memcpy(&v, &bits, sizeof(v));
  return v;
}

THINWIRE_INLINE F Load(const float* p) {
  F v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
THINWIRE_INLINE F Load(const BF16* p) {
  H half;
  __builtin_memcpy(&half, p, sizeof(half));
  return FromBits(__builtin_convertvector(half, U) << 16);
}
THINWIRE_INLINE void Store(float* p, F v) { __builtin_memcpy(p, &v, sizeof(v)); }
THINWIRE_INLINE void Store(BF16* p, F v) {
  const U bits = Bits(v);
  const U rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const U quiet = (bits >> 16) | 0x40u;
  const H half = __builtin_convertvector((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded, H);
  __builtin_memcpy(p, &half, sizeof(half));
}

// The last, partial vector of a row: `count` < 16 elements, the others `fill`.
template <typename T>
THINWIRE_INLINE F LoadTail(const T* p, int64_t count, float fill = 0) {
  T staged[kLanes];
  F v = Splat(fill);
  Store(staged, v);
  for (int64_t i = 0; i < count; ++i) staged[i] = p[i];
  return Load(staged);
}
template <typename T>
THINWIRE_INLINE void StoreTail(T* p, int64_t count, F v) {
  T staged[kLanes];
  Store(staged, v);
  for (int64_t i = 0; i < count; ++i) p[i] = staged[i];
}

// Calls body(i, load, store) for every vector of n elements; load(p) reads at p + i.
template <typename Body>
THINWIRE_INLINE void ForEachVector(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    body(
        i, [i](const auto* p, float = 0) __attribute__((always_inline)) { return Load(p + i); },
        [i](auto* p, F v) __attribute__((always_inline)) { Store(p + i, v); });
  }
  if (i < n) {
    const int64_t rest = n - i;
    body(
        i, [ i, rest ](const auto* p, float fill = 0) __attribute__((always_inline)) {
          return LoadTail(p + i, rest, fill);
        },
        [ i, rest ](auto* p, F v) __attribute__((always_inline)) { StoreTail(p + i, rest, v); });
  }
}

THINWIRE_INLINE F FirstLanes(int64_t count, F v, float fill) {
  constexpr U kLane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return kLane < static_cast<uint32_t>(count) ? v : Splat(fill);
}

// The same over the first `visible` of the `keys` elements of a row. Where a whole vector fits the
// row, the last one is masked instead of staged, and what it stores beyond them is zero.
template <typename Body>
THINWIRE_INLINE void ForEachVisible(int64_t visible, int64_t keys, const Body& body) {
  const int64_t whole = visible / kLanes * kLanes;
  if (whole == visible || whole + kLanes > keys) return ForEachVector(visible, body);
  ForEachVector(whole, body);
  const int64_t rest = visible - whole;
  body(
      whole, [ whole, rest ](const auto* p, float fill = 0) __attribute__((always_inline)) {
        return FirstLanes(rest, Load(p + whole), fill);
      },
      [ whole, rest ](auto* p, F v)
          __attribute__((always_inline)) { Store(p + whole, FirstLanes(rest, v, 0)); });
}

THINWIRE_INLINE float Sum(F v) {
  float sum = v[0];
  for (int lane = 1; lane < kLanes; ++lane) sum += v[lane];
  return sum;
}
// NaN in any lane gives NaN.
THINWIRE_INLINE F Max(F a, F b) { return (a > b) | (a != a) ? a : b; }
THINWIRE_INLINE float Max(F v) {
  float max = v[0];
  for (int lane = 1; lane < kLanes; ++lane) max = max > v[lane] || max != max ? max : v[lane];
  return max;
}

THINWIRE_INLINE F Exp(F x) { return ExpOf<U>(x); }

template <typename T>
void RmsNormRows(RowShape shape, const T* x, const T* weight, float eps, T* y, float* inverse_rms) {
  for (int64_t row = 0; row < shape.rows; ++row, x += shape.columns, y += shape.columns) {
    F squares{};
    ForEachVector(shape.columns, [&](int64_t, auto load, auto) {
      const F v = load(x);
      squares += v * v;
    });
    const float inverse =
        1.0f / __builtin_sqrtf(Sum(squares) / static_cast<float>(shape.columns) + eps);
    inverse_rms[row] = inverse;
    ForEachVector(shape.columns, [&](int64_t, auto load, auto store) {
      store(y, load(x) * inverse * load(weight));
    });
  }
}

// With h = x * inverse: dx = inverse * (dy w - h mean(dy w h)).
template <typename T>
void RmsNormGradRows(RowShape shape, const T* x, const T* weight, const float* inverse_rms,
                     const T* dy, T* dx) {
  for (int64_t row = 0; row < shape.rows; ++row) {
    const float inverse = inverse_rms[row];
    F products{};
    ForEachVector(shape.columns, [&](int64_t, auto load, auto) {
      products += load(dy) * load(weight) * (load(x) * inverse);
    });
    const float mean = Sum(products) / static_cast<float>(shape.columns);
    ForEachVector(shape.columns, [&](int64_t, auto load, auto store) {
      store(dx, (load(dy) * load(weight) - load(x) * inverse * mean) * inverse);
    });
    x += shape.columns;
    dy += shape.columns;
    dx += shape.columns;
  }
}

template <typename T>
void RmsNormWeightGradRows(RowShape shape, const T* x, const float* inverse_rms, const T* dy,
                           T* dweight) {
  ForEachVector(shape.columns, [&](int64_t, auto load, auto store) {
    F sum{};
    for (int64_t row = 0; row < shape.rows; ++row) {
      const int64_t at = row * shape.columns;
      sum += load(dy + at) * (load(x + at) * inverse_rms[row]);
    }
    store(dweight, sum);
  });
}

template <typename T>
void SwiGluRows(int64_t n, const T* gate, const T* up, T* out) {
  ForEachVector(n, [&](int64_t, auto load, auto store) {
    const F g = load(gate);
    store(out, g / (1.0f + Exp(-g)) * load(up));
  });
}

// silu'(g) = s (1 + g (1 - s)) with s the logistic function of g.
template <typename T>
void SwiGluGradRows(int64_t n, const T* gate, const T* up, const T* dout, T* dgate, T* dup) {
  ForEachVector(n, [&](int64_t, auto load, auto store) {
    const F g = load(gate);
    const F d = load(dout);
    const F s = 1.0f / (1.0f + Exp(-g));
    store(dgate, d * load(up) * s * (1.0f + g * (1.0f - s)));
    store(dup, d * g * s);
  });
}

template <typename T>
void CausalSoftmaxRows(const CausalShape& shape, T* scores) {
  for (int64_t row = 0; row < shape.rows; ++row, scores += shape.keys) {
    const int64_t visible = shape.first + row / shape.group + 1;
    F maxima = Splat(-__builtin_inff());
    ForEachVisible(visible, shape.keys,
                   [&](int64_t, auto load, auto) { maxima = Max(maxima, load(scores, -3e38f)); });
    const float max = Max(maxima) * shape.scale;
    // exp(scale (s - max)) is computed twice rather than kept: scores may be bf16, and a row of
    // fp32 would need memory of its own.
    F sums{};
    ForEachVisible(visible, shape.keys, [&](int64_t, auto load, auto) {
      sums += Exp(load(scores, -3e38f) * shape.scale - max);
    });
    const float inverse = 1.0f / Sum(sums);
    ForEachVisible(visible, shape.keys, [&](int64_t, auto load, auto store) {
      store(scores, Exp(load(scores, -3e38f) * shape.scale - max) * inverse);
    });
    __builtin_memset(static_cast<void*>(scores + visible), 0,
                     static_cast<size_t>(shape.keys - visible) * sizeof(T));
  }
}

template <typename T>
void CausalSoftmaxGradRows(const CausalShape& shape, const T* p, T* dp) {
  for (int64_t row = 0; row < shape.rows; ++row, p += shape.keys, dp += shape.keys) {
    const int64_t visible = shape.first + row / shape.group + 1;
    F products{};
    ForEachVisible(visible, shape.keys,
                   [&](int64_t, auto load, auto) { products += load(p) * load(dp); });
    const float sum = Sum(products);
    ForEachVisible(visible, shape.keys, [&](int64_t, auto load, auto store) {
      store(dp, load(p) * (load(dp) - sum) * shape.scale);
    });
    __builtin_memset(static_cast<void*>(dp + visible), 0,
                     static_cast<size_t>(shape.keys - visible) * sizeof(T));
  }
}

template <typename T>
THINWIRE_INLINE float At(const T* p) {
  return LoadTail(p, 1)[0];
}

template <typename T>
void CrossEntropyRows(RowShape shape, T* logits, const int64_t* targets, float grad_scale,
                      float* losses) {
  for (int64_t row = 0; row < shape.rows; ++row, logits += shape.columns) {
    F maxima = Splat(-__builtin_inff());
    ForEachVector(shape.columns,
                  [&](int64_t, auto load, auto) { maxima = Max(maxima, load(logits, -3e38f)); });
    const float max = Max(maxima);
    F sums{};
    ForEachVector(shape.columns,
                  [&](int64_t, auto load, auto) { sums += Exp(load(logits, -3e38f) - max); });
    const float sum = Sum(sums);
    const float target = At(logits + targets[row]);
    losses[row] = __builtin_logf(sum) + max - target;
    if (grad_scale == 0) continue;
    const float scale = grad_scale / sum;
    ForEachVector(shape.columns, [&](int64_t, auto load, auto store) {
      store(logits, Exp(load(logits) - max) * scale);
    });
    StoreTail(logits + targets[row], 1, Splat(__builtin_expf(target - max) * scale - grad_scale));
  }
}

// One head of one token: a turn by +angle or, with sign -1, back.
template <typename T>
THINWIRE_INLINE void Turn(int64_t half, const T* in, const float* cosine, const float* sine,
                          float sign, T* out) {
  ForEachVector(half, [&](int64_t, auto load, auto store) {
    const F a = load(in);
    const F b = load(in + half);
    const F c = load(cosine);
    const F s = load(sine) * sign;
    store(out, a * c - b * s);
    store(out + half, b * c + a * s);
  });
}

template <typename T, bool kToHeads>
void MoveHeads(const HeadShape& shape, const T* in, const float* cosine, const float* sine,
               T* out) {
  const int64_t dim = shape.dim;
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t t = 0; t < shape.tokens; ++t) {
      const float* c = cosine == nullptr ? nullptr : cosine + t * (dim / 2);
      const float* s = sine == nullptr ? nullptr : sine + t * (dim / 2);
      for (int64_t kv = 0; kv < shape.kv_heads; ++kv) {
        for (int64_t g = 0; g < shape.group; ++g) {
          const int64_t token_major =
              (((b * shape.tokens + t) * shape.kv_heads + kv) * shape.group + g) * dim;
          const int64_t head_major =
              (((b * shape.kv_heads + kv) * shape.tokens + t) * shape.group + g) * dim;
          const T* from = in + (kToHeads ? token_major : head_major);
          T* to = out + (kToHeads ? head_major : token_major);
          if (c == nullptr) {
            __builtin_memcpy(static_cast<void*>(to), from, static_cast<size_t>(dim) * sizeof(T));
          } else {
            Turn(dim / 2, from, c, s, kToHeads ? 1.0f : -1.0f, to);
          }
        }
      }
    }
  }
}

template <typename T>
constexpr TransformerRows<T> kRows = {
    RmsNormRows<T>,     RmsNormGradRows<T>,   RmsNormWeightGradRows<T>, SwiGluRows<T>,
    SwiGluGradRows<T>,  CausalSoftmaxRows<T>, CausalSoftmaxGradRows<T>, CrossEntropyRows<T>,
    MoveHeads<T, true>, MoveHeads<T, false>};

constexpr TransformerRowsTable kTable = {kRows<float>, kRows<BF16>};

}  // namespace

const TransformerRowsTable& TransformerRowsOfIsa() { return kTable; }

}  // namespace thinwire::kernels::THINWIRE_ISA
