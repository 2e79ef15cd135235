#include "thinwire/kernels/quantize_isa.h"

#include "thinwire/kernels/groups-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

struct Int8Codes {
  static constexpr CodeType kType = CodeType::kInt8;
  static constexpr float kLow = -127, kHigh = 127;
  static constexpr int64_t kGroupBytes = kBlockUnit;
  using Decoder = Int8Decoder;
  THINWIRE_INLINE static void Store(std::byte* out, const Group& x) { StoreInt8(out, x); }
  THINWIRE_INLINE static int64_t Bytes(int64_t size) { return size; }
};

struct Int4Codes {
  static constexpr CodeType kType = CodeType::kInt4;
  static constexpr float kLow = -8, kHigh = 7;
  static constexpr int64_t kGroupBytes = kBlockUnit / 2;
  using Decoder = Int4Decoder;
  THINWIRE_INLINE static void Store(std::byte* out, const Group& x) { StoreInt4(out, x); }
  THINWIRE_INLINE static int64_t Bytes(int64_t size) { return size - size / 2; }
};

template <typename Body>
THINWIRE_INLINE void WithCodes(CodeType type, const Body& body) {
  return type == CodeType::kInt8 ? body(Int8Codes{}) : body(Int4Codes{});
}

template <typename Codes>
THINWIRE_INLINE void StoreCodes(Codes, std::byte* out, int64_t left, const Group& x) {
  if (left >= kBlockUnit) [[likely]]
    return Codes::Store(out, x);
  std::byte buffer[Codes::kGroupBytes];
  Codes::Store(buffer, x);
  __builtin_memcpy(out, buffer, static_cast<size_t>(Codes::Bytes(left)));
}

template <typename Codes>
THINWIRE_INLINE Group DecodeNext(const typename Codes::Decoder& decoder, const std::byte* in,
                                 int64_t left) {
  if (left >= kBlockUnit) [[likely]]
    return decoder.Decode(in);
  return decoder.Decode(PaddedBytes(in, Codes::Bytes(left)).data);
}

template <typename Codes>
THINWIRE_INLINE typename Codes::Decoder DecoderOf(const std::byte* scales, int64_t block) {
  const uint16_t bits = reinterpret_cast<const Word16*>(scales)[block];
  return typename Codes::Decoder(ScaleFactor<Codes::kType>(bits));
}

template <typename Codes, typename Elements>
THINWIRE_INLINE BlockScale ExtremeScale(Elements elements, const std::byte* in, int64_t size) {
  Extremes extremes;
  for (int64_t i = 0; i < size; i += kBlockUnit) {
    __builtin_prefetch(in + i * kElementBytes<Elements> + kAhead);
    extremes.Add(LoadNext(elements, in + i * kElementBytes<Elements>, size - i));
  }
  return ScaleOfBlock<Codes::kType>(extremes.Key());
}

template <typename Codes, typename Elements, bool kBound>
THINWIRE_INLINE void EncodeBlock(Elements elements, const std::byte* in, int64_t size,
                                 float inverse, std::byte* out) {
  if (inverse == 0) {  // also where NaN or inf would give something else
    __builtin_memset(out, 0, static_cast<size_t>(Codes::Bytes(size)));
    return;
  }
  for (int64_t i = 0; i < size; i += kBlockUnit) {
    Group x = LoadNext(elements, in + i * kElementBytes<Elements>, size - i);
    x = Scaled(x, inverse);
    if (kBound) x = Bounded(x, Codes::kLow, Codes::kHigh);
    StoreCodes(Codes{}, out + Codes::Bytes(i), size - i, x);
  }
}

// The sum of squared differences of a block to its values, in units of `unit` squared, where
// `factor` is scale / unit.
template <typename Codes, typename Elements>
THINWIRE_INLINE float BlockError(Elements elements, const std::byte* in, int64_t size,
                                 float inverse, float factor) {
  Group sum = {};
  for (int64_t i = 0; i < size; i += kBlockUnit) {
    const Group x = Scaled(LoadNext(elements, in + i * kElementBytes<Elements>, size - i), inverse);
    sum = Plus(sum, SquaredDifference(x, Rounded(Bounded(x, Codes::kLow, Codes::kHigh))));
  }
  return SumOfLanes(sum) * (factor * factor);
}

template <typename Codes, typename Elements>
THINWIRE_INLINE BlockScale SearchedScale(Elements elements, const std::byte* in, int64_t size,
                                         const BlockScale& extreme) {
  if (extreme.inverse == 0) return extreme;
  BlockScale best = extreme;
  float least = BlockError<Codes>(elements, in, size, extreme.inverse, 1);
  for (int step = 1; step <= kSearchSteps; ++step) {
    const float wanted = ToFloat(BF16{extreme.bits}) * (1.0f - static_cast<float>(step) * 0.0625f);
    const uint16_t bits = ToBF16(wanted).bits;
    if ((bits & 0x7fffu) < kLeastScale) break;
    const float scale = ToFloat(BF16{bits});
    const BlockScale candidate{bits, 1.0f / scale};
    const float error =
        BlockError<Codes>(elements, in, size, candidate.inverse, scale * extreme.inverse);
    if (error < least) {
      least = error;
      best = candidate;
    }
  }
  return best;
}

// Blocks whose scales are found before the first of them is encoded: the reductions of one block to
// its extreme run while the next block is read.
constexpr int64_t kBlocksAhead = 4;

template <typename Codes, typename Elements>
void QuantizeLoop(int64_t block, const std::byte* in, int64_t size, MutableBlocks out) {
  Elements elements;
  BlockScale scales[kBlocksAhead];
  for (int64_t begin = 0; begin < size; begin += kBlocksAhead * block) {
    int64_t count = 0;
    for (int64_t i = begin; i < size && count < kBlocksAhead; i += block, ++count) {
      const int64_t length = size - i < block ? size - i : block;
      scales[count] = ExtremeScale<Codes>(elements, in + i * kElementBytes<Elements>, length);
    }
    for (int64_t b = 0; b < count; ++b) {
      const int64_t i = begin + b * block;
      const int64_t length = size - i < block ? size - i : block;
      StoreScale(out.scales, i / block, scales[b].bits);
      EncodeBlock<Codes, Elements, false>(elements, in + i * kElementBytes<Elements>, length,
                                          scales[b].inverse, out.codes + Codes::Bytes(i));
    }
  }
}

template <typename Codes, typename Elements>
void SearchLoop(int64_t block, const std::byte* in, int64_t size, MutableBlocks out) {
  Elements elements;
  for (int64_t i = 0; i < size; i += block) {
    const int64_t length = size - i < block ? size - i : block;
    const std::byte* at = in + i * kElementBytes<Elements>;
    const BlockScale scale =
        SearchedScale<Codes>(elements, at, length, ExtremeScale<Codes>(elements, at, length));
    StoreScale(out.scales, i / block, scale.bits);
    EncodeBlock<Codes, Elements, true>(elements, at, length, scale.inverse,
                                       out.codes + Codes::Bytes(i));
  }
}

template <typename Codes, typename Elements>
void DequantizeLoop(int64_t block, ConstBlocks in, std::byte* out, int64_t size) {
  for (int64_t begin = 0; begin < size; begin += block) {
    const int64_t end = size - begin < block ? size : begin + block;
    const auto decoder = DecoderOf<Codes>(in.scales, begin / block);
    for (int64_t i = begin; i < end; i += kBlockUnit) {
      StoreNext(Elements{}, out + i * kElementBytes<Elements>, end - i,
                DecodeNext<Codes>(decoder, in.codes + Codes::Bytes(i), end - i));
    }
  }
}

// The terms of a pass within one block.
template <typename Codes>
struct BlockTerms {
  typename Codes::Decoder decoders[kTermsPerPass];
  const std::byte* data[kTermsPerPass];  // the codes of the block's first element, or the element
  bool is_own[kTermsPerPass];
  const BlockTerm* terms;

  // `begin` is the first element of block `index`.
  THINWIRE_INLINE BlockTerms(const TermPass& pass, int64_t begin, int64_t index)
      : terms(pass.terms) {
    for (int t = 0; t < pass.count; ++t) {
      const ConstArray& own = terms[t].own;
      is_own[t] = own.data != nullptr;
      data[t] = is_own[t] ? own.data + begin * SizeOf(own.dtype)
                          : terms[t].blocks.codes + Codes::Bytes(begin);
      if (!is_own[t]) decoders[t] = DecoderOf<Codes>(terms[t].blocks.scales, index);
    }
  }

  THINWIRE_INLINE Group At(int t, int64_t i, int64_t left) const {
    if (!is_own[t]) return DecodeNext<Codes>(decoders[t], data[t] + Codes::Bytes(i), left);
    const DType dtype = terms[t].own.dtype;
    return LoadOwn(dtype, data[t] + i * SizeOf(dtype), left);
  }
};

// Adds elements i to i + 31 of a block, or the `left` last ones. A NaN on the way stays one, so it
// suffices to look at the end; one term alone stays as it is.
template <typename Codes>
THINWIRE_INLINE void SumGroup(const BlockTerms<Codes>& terms, int count, bool accumulate,
                              float* out, int64_t i, int64_t left) {
  std::byte* const at = reinterpret_cast<std::byte*>(out + i);
  Group sum = accumulate ? LoadNext(F32Elements{}, at, left) : terms.At(0, i, left);
#pragma GCC unroll 4
  for (int t = accumulate ? 0 : 1; t < count; ++t) sum = Plus(sum, terms.At(t, i, left));
  if (count > 1 || accumulate) sum = Canonical(sum);
  StoreNext(F32Elements{}, at, left, sum);
}

// kCount 0 stands for any number: known ones unroll.
template <typename Codes, int kCount, bool kAccumulate>
void SumLoop(int64_t block, const TermPass& pass, float* out) {
  const int count = kCount == 0 ? pass.count : kCount;
  int64_t index = pass.begin / block;
  for (int64_t begin = 0; begin < pass.size; begin += block, ++index) {
    const int64_t size = pass.size - begin < block ? pass.size - begin : block;
    const BlockTerms<Codes> terms(pass, pass.begin + begin, index);
    int64_t i = 0;
    for (; i + kBlockUnit <= size; i += kBlockUnit) {
      SumGroup(terms, count, kAccumulate, out + begin, i, kBlockUnit);
    }
    if (i < size) SumGroup(terms, count, kAccumulate, out + begin, i, size - i);
  }
}

template <typename Codes>
void Sum(int64_t block, const TermPass& pass, float* out) {
  if (pass.accumulate) return SumLoop<Codes, 0, true>(block, pass, out);
  switch (pass.count) {
    case 2:
      return SumLoop<Codes, 2, false>(block, pass, out);
    case 3:
      return SumLoop<Codes, 3, false>(block, pass, out);
    case 4:
      return SumLoop<Codes, 4, false>(block, pass, out);
    default:
      return SumLoop<Codes, 0, false>(block, pass, out);
  }
}

}  // namespace

void Quantize(const BlockFormat& format, ScaleChoice choice, ConstArray in, MutableBlocks out) {
  WithCodes(format.code, [&](auto codes) {
    WithElements(in.dtype, [&](auto elements) {
      using Codes = decltype(codes);
      using Elements = decltype(elements);
      if (choice == ScaleChoice::kExtreme) {
        QuantizeLoop<Codes, Elements>(format.block, in.data, in.size, out);
      } else {
        SearchLoop<Codes, Elements>(format.block, in.data, in.size, out);
      }
    });
  });
}

void Dequantize(const BlockFormat& format, ConstBlocks in, Array out) {
  WithCodes(format.code, [&](auto codes) {
    WithElements(out.dtype, [&](auto elements) {
      DequantizeLoop<decltype(codes), decltype(elements)>(format.block, in, out.data, out.size);
    });
  });
}

void SumBlocks(const BlockFormat& format, const TermPass& pass, float* out) {
  WithCodes(format.code, [&](auto codes) { Sum<decltype(codes)>(format.block, pass, out); });
}

}  // namespace thinwire::kernels::THINWIRE_ISA
