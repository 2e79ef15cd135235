#include "thinwire/kernels/low_bits_isa.h"

#include "thinwire/kernels/low_bits-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

THINWIRE_INLINE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

template <typename Elements>
THINWIRE_INLINE uint32_t ExtremeKeyOf(Elements elements, const std::byte* in, int64_t size) {
  Extremes extremes;
  for (int64_t i = 0; i < size; i += kBlockUnit) {
    __builtin_prefetch(in + i * kElementBytes<Elements> + kAhead);
    extremes.Add(LoadNext(elements, in + i * kElementBytes<Elements>, size - i));
  }
  return extremes.Key();
}

// The factor 2^-e for the power of two at or below the largest magnitude; its inverse is exact,
// too.
THINWIRE_INLINE uint32_t NormalizingBits(uint32_t extreme_key) {
  const uint32_t exponent = extreme_key >> 24;  // of the magnitude, biased
  const uint32_t bounded = exponent < 1 ? 1 : exponent > 253 ? 253 : exponent;
  return (254 - bounded) << 23;
}

template <typename Elements>
THINWIRE_INLINE float RootMeanSquare(Elements elements, const std::byte* in, int64_t size,
                                     uint32_t extreme_key) {
  const uint32_t normalizing = NormalizingBits(extreme_key);
  const float factor = __builtin_bit_cast(float, normalizing);
  Group sum = {};
  for (int64_t i = 0; i < size; i += kBlockUnit) {
    const Group x = Scaled(LoadNext(elements, in + i * kElementBytes<Elements>, size - i), factor);
    sum = Plus(sum, SquaredDifference(x, Group{}));
  }
  const float mean = SumOfLanes(sum) / static_cast<float>(size);
  return __builtin_sqrtf(mean) * __builtin_bit_cast(float, (254u << 23) - normalizing);
}

template <typename Codes, typename Elements>
THINWIRE_INLINE BlockScale ScaleOf(Elements elements, const Clip& clip, const std::byte* in,
                                   int64_t size) {
  const uint32_t key = ExtremeKeyOf(elements, in, size);
  float basis = __builtin_bit_cast(float, key >> 1);
  if (clip.basis == Clip::Basis::kRms) basis = RootMeanSquare(elements, in, size, key);
  return ClippedScale<Codes::kType>(key, basis * clip.factor);
}

template <typename Codes, typename Elements>
THINWIRE_INLINE void EncodeBlock(Elements elements, typename Codes::Writer& writer,
                                 const std::byte* in, int64_t begin, int64_t end, float inverse) {
  if (inverse == 0) {  // also where NaN or inf would give something else
    for (int64_t i = begin; i < end; i += kBlockUnit) writer.AddZeros(i, end - i);
    return;
  }
  for (int64_t i = begin; i < end; i += kBlockUnit) {
    const Group x = LoadNext(elements, in + i * kElementBytes<Elements>, end - i);
    writer.Add(Bounded(Scaled(x, inverse), Codes::kLow, Codes::kHigh), i, end - i);
  }
}

// Blocks whose scales are found before the first of them is encoded, as in quantize_isa.cc.
constexpr int64_t kBlocksAhead = 4;

template <typename Codes, typename Elements>
void ClippedLoop(int64_t block, const Clip& clip, const std::byte* in, int64_t size,
                 MutableBlocks out) {
  Elements elements;
  BlockScale scales[kBlocksAhead];
  typename Codes::Writer writer(out.codes, size);
  for (int64_t begin = 0; begin < size; begin += kBlocksAhead * block) {
    const int64_t end = Least(size, begin + kBlocksAhead * block);
    int64_t count = 0;
    for (int64_t i = begin; i < end; i += block, ++count) {
      scales[count] =
          ScaleOf<Codes>(elements, clip, in + i * kElementBytes<Elements>, Least(block, size - i));
      StoreScale(out.scales, i / block, scales[count].bits);
    }
    for (int64_t b = 0; b < count; ++b) {
      const int64_t i = begin + b * block;
      EncodeBlock<Codes>(elements, writer, in, i, Least(size, i + block), scales[b].inverse);
    }
  }
  writer.Finish();
}

template <typename Codes>
THINWIRE_INLINE float FactorOf(const std::byte* scales, int64_t block) {
  return ScaleFactor<Codes::kType>(reinterpret_cast<const Word16*>(scales)[block]);
}

template <typename Codes, typename Elements>
void DequantizeLoop(int64_t block, ConstBlocks in, std::byte* out, int64_t size) {
  const typename Codes::Reader reader(in.codes, size);
  for (int64_t begin = 0; begin < size; begin += block) {
    const int64_t end = Least(size, begin + block);
    const float factor = FactorOf<Codes>(in.scales, begin / block);
    for (int64_t i = begin; i < end; i += kBlockUnit) {
      StoreNext(Elements{}, out + i * kElementBytes<Elements>, end - i,
                reader.At(i, end - i, factor));
    }
  }
}

// A NaN on the way stays one, so it suffices to look at the end; one term alone stays as it is.
template <typename Codes>
void SumLoop(int64_t block, const TermPass& pass, float* out) {
  typename Codes::Reader readers[kTermsPerPass];
  float factors[kTermsPerPass];
  for (int t = 0; t < pass.count; ++t) {
    readers[t] = typename Codes::Reader(pass.terms[t].blocks.codes, pass.size);
  }
  for (int64_t begin = 0; begin < pass.size; begin += block) {
    const int64_t end = Least(pass.size, begin + block);
    for (int t = 0; t < pass.count; ++t) {
      if (pass.terms[t].own.data != nullptr) continue;
      factors[t] = FactorOf<Codes>(pass.terms[t].blocks.scales, begin / block);
    }
    for (int64_t i = begin; i < end; i += kBlockUnit) {
      const auto term = [&](int t) __attribute__((always_inline)) {
        const ConstArray& own = pass.terms[t].own;
        if (own.data == nullptr) return readers[t].At(i, end - i, factors[t]);
        return LoadOwn(own.dtype, own.data + i * SizeOf(own.dtype), end - i);
      };
      std::byte* const at = reinterpret_cast<std::byte*>(out + i);
      Group sum = pass.accumulate ? LoadNext(F32Elements{}, at, end - i) : term(0);
#pragma GCC unroll 4
      for (int t = pass.accumulate ? 0 : 1; t < pass.count; ++t) sum = Plus(sum, term(t));
      if (pass.count > 1 || pass.accumulate) sum = Canonical(sum);
      StoreNext(F32Elements{}, at, end - i, sum);
    }
  }
}

}  // namespace

void QuantizeClipped(const BlockFormat& format, const Clip& clip, ConstArray in,
                     MutableBlocks out) {
  WithElements(in.dtype, [&](auto elements) {
    using Elements = decltype(elements);
    if (format.code == CodeType::kInt4) {
      ClippedLoop<Int4Codes, Elements>(format.block, clip, in.data, in.size, out);
    } else if (format.code == CodeType::kInt3) {
      ClippedLoop<Int3Codes, Elements>(format.block, clip, in.data, in.size, out);
    } else {
      ClippedLoop<TernaryCodes, Elements>(format.block, clip, in.data, in.size, out);
    }
  });
}

void DequantizeLowBits(const BlockFormat& format, ConstBlocks in, Array out) {
  WithElements(out.dtype, [&](auto elements) {
    using Elements = decltype(elements);
    if (format.code == CodeType::kInt3) {
      DequantizeLoop<Int3Codes, Elements>(format.block, in, out.data, out.size);
    } else {
      DequantizeLoop<TernaryCodes, Elements>(format.block, in, out.data, out.size);
    }
  });
}

void SumLowBits(const BlockFormat& format, const TermPass& pass, float* out) {
  if (format.code == CodeType::kInt3) return SumLoop<Int3Codes>(format.block, pass, out);
  SumLoop<TernaryCodes>(format.block, pass, out);
}

}  // namespace thinwire::kernels::THINWIRE_ISA
