// Only for sum_quantize_isa.cc: decodes, sums and encodes blocks whose messages have scales of
// similar magnitude, which is nearly all of them. words_<isa>-inl.h has the steps that need
// instructions of their own.
//
// Scales are bf16, mantissas of 8 bits. With u the last place of the least scale that the messages
// have in a block, every scale is M u with an integer M, every value code M u, and so is every sum.
// If the sum of max|code| |M| is at most 2^24, each partial sum is a number of fp32: adding never
// rounds, and integers give the same bits in any order. They are summed two messages at a time, by
// the instruction that adds two products of 16 bits into 32, from codes that stay in their place in
// a word. This takes |M| < 2^15: scales within a factor of 2^7. Other blocks go the general way.
//
//   words   of two messages are interleaved: 16 bits of one below 16 bits of the other
//   part j  code j of each word, from low to high. A mask leaves it in its place, whence sums of
//           part j have the factor kFactor[j]
//   bias    codes of all parts but the last, which is shifted down, are read without sign: code +
//           kBias. Sums start at -kBias (M_1 + M_2 + ...)
//
// Packing words of 32 bits into 16 undoes the interleaving, so codes keep their order. Numbers that
// are multiplied by powers of two round alike, so x = S u times the inverse of the scale is S
// kFactor times (the inverse x u / kFactor).
#pragma once

#include "thinwire/kernels/lanes-inl.h"

#if defined(__AVX512F__)
#include "thinwire/kernels/words_avx512-inl.h"
#else
#include "thinwire/kernels/words_avx2-inl.h"
#endif

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

constexpr int kMostSpread = 7;  // binary orders of magnitude: 255 << 7 is below 2^15

// Exponents of scales, biased by 127 as in fp32, for which nothing below is subnormal or inf: u is
// 2^-7 of a scale, sums are up to 2^24 u, an inverse times u is from 2^-24 to 2^7.
constexpr int32_t kLeastExponent = 64, kMostExponent = 192;

struct Int8Parts {
  static constexpr CodeType kType = CodeType::kInt8;
  static constexpr size_t kParts = 2;
  static constexpr int32_t kFactor[kParts] = {1, 1};
  static constexpr float kInverseFactor[kParts] = {1, 1};
  static constexpr int32_t kBias[kParts] = {128, 0};
  static constexpr uint16_t kFlip = 0x0080;
  static constexpr int32_t kLargestTotal = 1 << 17;  // of |M|; x 128 is 2^24

  THINWIRE_INLINE static Words Part(Words words, size_t j) {
    return j == 0 ? Masked<kFlip>(words, 0xff) : ShiftedDown<8>(words);
  }
  THINWIRE_INLINE static void Store(std::byte* out, const Words* codes) {
    StoreWords(out, (codes[0] & 0xff) | (codes[1] << 8));
  }
};

struct Int4Parts {
  static constexpr CodeType kType = CodeType::kInt4;
  static constexpr size_t kParts = 4;
  static constexpr int32_t kFactor[kParts] = {1, 16, 256, 1};
  static constexpr float kInverseFactor[kParts] = {1, 0x1p-4f, 0x1p-8f, 1};
  static constexpr int32_t kBias[kParts] = {8, 8, 8, 0};
  static constexpr uint16_t kFlip = 0x0888;
  // Of |M|; x 16 x 256 is below 2^31. 16 messages stay below it.
  static constexpr int32_t kLargestTotal = (1 << 19) - 1;

  THINWIRE_INLINE static Words Part(Words words, size_t j) {
    return j == 3 ? ShiftedDown<12>(words)
                  : Masked<kFlip>(words, static_cast<uint16_t>(0xf << (4 * j)));
  }
  THINWIRE_INLINE static void Store(std::byte* out, const Words* codes) {
    StoreNibbles(out, codes[0], codes[1], codes[2], codes[3]);
  }
};

// Blocks that are handled together, one per lane of what is computed once per block.
constexpr int kBatch = kVectorLanes;
constexpr int64_t kBatchElements = 128 * kBatch;  // two of them in fp32 fit the first-level cache
// Bytes of every array that are asked for before they are needed: the arithmetic of two blocks
// fills a processor's window, and where a page of 4 KiB ends its own prefetching starts anew.
constexpr int64_t kAhead = 512;
typedef int32_t BatchInts __attribute__((vector_size(4 * kBatch)));
typedef uint16_t BatchScales __attribute__((vector_size(2 * kBatch)));

// Steps of a batch. Those of the next one run between the scales and the codes of this one, whose
// long chains of operations they cover.
template <typename Parts, size_t kPairs>
struct ExactBatch {
  static constexpr size_t kParts = Parts::kParts;
  static constexpr int64_t kRegister = sizeof(Words);

  int64_t first, count;
  BatchInts pairs[kPairs];  // M of two messages, one below the other
  BatchInts start[kParts];  // what sums of part j start at
  Vector unit;              // u
  BatchInts exact;          // -1 where all of the above holds for the block, else 0
  BatchInts scale;          // as sent
  Vector inverse[kParts];   // of the scale, times u / kFactor[j]
  SignedExtreme extremes[kBatch];
  alignas(64) float sums[kLargestBlock];

  // Scales of `count` blocks; 0 stands for those that are missing in a batch.
  THINWIRE_INLINE static BatchInts Scales(const std::byte* scales, int64_t count) {
    BatchScales bits = {};
    if (count == kBatch) [[likely]] {
      __builtin_memcpy(&bits, scales, sizeof(bits));
    } else {
      __builtin_memcpy(&bits, scales, static_cast<size_t>(2 * count));
    }
    return __builtin_convertvector(bits, BatchInts);
  }

  THINWIRE_INLINE void Load(const TermPass& pass) {
    const int64_t at = pass.begin + first;
    for (int t = 0; t < pass.count; ++t) {
      __builtin_prefetch(pass.terms[t].blocks.scales + 2 * at + kAhead / 2);
    }
    BatchInts least = BatchInts{} + 255, most = {};
    for (int t = 0; t < pass.count; ++t) {
      const BatchInts magnitude = Scales(pass.terms[t].blocks.scales + 2 * at, count) & 0x7fff;
      const BatchInts exponent = magnitude >> 7;
      least = magnitude != 0 && exponent < least ? exponent : least;
      most = exponent > most ? exponent : most;
    }
    for (BatchInts& pair : pairs) pair = BatchInts{};
    BatchInts total = {}, sum = {};
    for (int t = 0; t < pass.count; ++t) {
      const BatchInts bits = Scales(pass.terms[t].blocks.scales + 2 * at, count);
      const BatchInts magnitude = bits & 0x7fff;
      BatchInts m = ((magnitude & 0x7f) | 0x80) << (((magnitude >> 7) - least) & kMostSpread);
      m = magnitude == 0 ? 0 : m;
      total += m;
      m = (bits & 0x8000) != 0 ? -m : m;
      sum += m;
      pairs[t / 2] |= t % 2 == 0 ? m & 0xffff : m << 16;
    }
    const BatchInts zero = least == 255 && most == 0;
    const BatchInts near = least >= kLeastExponent && most <= kMostExponent &&
                           most - least <= kMostSpread && total <= Parts::kLargestTotal;
    exact = zero | near;
    for (size_t j = 0; j < kParts; ++j) {
      start[j] = sum * -(Parts::kBias[j] * Parts::kFactor[j]);
    }
    unit = reinterpret_cast<Vector>(((zero ? 127 : least) - 7) << 23);
  }

  THINWIRE_INLINE static void Prefetch(const std::byte* const* data, int64_t i,
                                       const std::byte* out) {
    for (size_t t = 0; t < 2 * kPairs; ++t) __builtin_prefetch(data[t] + i + kAhead);
    __builtin_prefetch(out + i + kAhead, 1);
  }

  // Sums of block b, in units of u, part after part of the words of two registers.
  THINWIRE_INLINE void Sum(const std::byte* const* data, int64_t b, int64_t bytes,
                           const std::byte* out) {
    SignedExtreme part_extremes[kParts];
    DoubleWords factors[kPairs];
    for (size_t p = 0; p < kPairs; ++p) factors[p] = Splat(pairs[p][b]);
    float* to = sums + b * bytes / 2 * int64_t{kParts};
    for (int64_t i = (first + b) * bytes; i < (first + b + 1) * bytes; i += kRegister) {
      Prefetch(data, i, out);
      Words words[2][kPairs];
      for (size_t p = 0; p < kPairs; ++p) {
        const Words x = Flipped<Parts::kFlip>(LoadWords(data[2 * p] + i));
        const Words y = Flipped<Parts::kFlip>(LoadWords(data[2 * p + 1] + i));
        words[0][p] = InterleavedLow(x, y);
        words[1][p] = InterleavedHigh(x, y);
      }
      for (size_t j = 0; j < kParts; ++j) {
        for (int half = 0; half < 2; ++half, to += kVectorLanes) {
          DoubleWords sum = Parts::kBias[j] == 0 ? DoubleWords{} : Splat(start[j][b]);
          for (size_t p = 0; p < kPairs; ++p) {
            sum = PlusProducts(sum, Parts::Part(words[half][p], j), factors[p]);
          }
          const Vector x = ToFloats(sum);
          part_extremes[j].Add(x);
          StoreVector(to, x);
        }
      }
    }
    extremes[b] = part_extremes[0];
    for (size_t j = 1; j < kParts; ++j) extremes[b].Add(part_extremes[j], Parts::kInverseFactor[j]);
  }

  // As ScaleOfBlock of block_scale.h, whose bounds are far off.
  THINWIRE_INLINE void FindScales() {
    const Vector extreme = ExtremeOfEach(extremes) * unit;
    const BatchInts bits = reinterpret_cast<BatchInts>(extreme);
    const Vector magnitude = reinterpret_cast<Vector>(bits & 0x7fffffff);
    const Vector exact_scale =
        Parts::kType == CodeType::kInt8 ? magnitude / 127.0f : magnitude * 0.125f;
    scale = (reinterpret_cast<BatchInts>(exact_scale) + 0xffff) >> 16;
    if (Parts::kType == CodeType::kInt4) scale = bits > 0 ? scale | 0x8000 : scale;
    const Vector all = unit / reinterpret_cast<Vector>(scale << 16);
    for (size_t j = 0; j < kParts; ++j) {
      inverse[j] = (bits & 0x7fffffff) == 0 ? Vector{} : all * Parts::kInverseFactor[j];
    }
  }

  THINWIRE_INLINE void Encode(int64_t b, int64_t bytes, MutableBlocks out) {
    if (exact[b] == 0) return;
    reinterpret_cast<Word16*>(out.scales)[first + b] = static_cast<uint16_t>(scale[b]);
    const float* from = sums + b * bytes / 2 * int64_t{kParts};
    for (int64_t i = (first + b) * bytes; i < (first + b + 1) * bytes; i += kRegister) {
      Words codes[kParts];
      for (size_t j = 0; j < kParts; ++j) {
        const float factor = inverse[j][b];
        const Vector low = LoadVector(from) * factor;
        const Vector high = LoadVector(from + kVectorLanes) * factor;
        codes[j] = RoundedWords(low, high);
        from += 2 * kVectorLanes;
      }
      Parts::Store(out.codes + i, codes);
    }
  }
};

template <typename Parts, size_t kPairs>
int64_t SumQuantizeLoop(int64_t block, const TermPass& pass, MutableBlocks out,
                        OtherBlocks& others) {
  const int64_t bytes = block * 2 / int64_t{Parts::kParts};
  const int64_t fitting = kBatchElements / block;
  const int64_t step = fitting < 1 ? 1 : fitting < kBatch ? fitting : kBatch;
  const std::byte* data[2 * kPairs];
  for (size_t t = 0; t < 2 * kPairs; ++t) {  // those that are missing have an M of 0
    data[t] =
        pass.terms[t < static_cast<size_t>(pass.count) ? t : 0].blocks.codes + pass.begin * bytes;
  }
  ExactBatch<Parts, kPairs> batches[2];
  batches[1].count = 0;
  int64_t first = 0;
  int turn = 0;
  for (; first < pass.size && others.Room() >= kBatch; turn ^= 1) {
    ExactBatch<Parts, kPairs>& batch = batches[turn];
    ExactBatch<Parts, kPairs>& last = batches[turn ^ 1];
    batch.first = first;
    batch.count = pass.size - first < step ? pass.size - first : step;
    batch.Load(pass);
    // Blocks in turns: reading and writing at an even pace is what the memory does best.
    for (int64_t b = 0; b < batch.count; ++b) {
      if (batch.exact[b] == 0) {
        others.Add(pass.begin + first + b);
      } else {
        batch.Sum(data, b, bytes, out.codes);
      }
      if (b < last.count) last.Encode(b, bytes, out);
    }
    for (int64_t b = batch.count; b < last.count; ++b) last.Encode(b, bytes, out);
    batch.FindScales();
    first += batch.count;
  }
  ExactBatch<Parts, kPairs>& last = batches[turn ^ 1];
  for (int64_t b = 0; b < last.count; ++b) last.Encode(b, bytes, out);
  return first;
}

template <typename Parts>
int64_t SumQuantizeParts(int64_t block, const TermPass& pass, MutableBlocks out,
                         OtherBlocks& others) {
  if (block % (int64_t{Parts::kParts} * kVectorLanes * 2) != 0) return 0;
  if (pass.count <= 2) return SumQuantizeLoop<Parts, 1>(block, pass, out, others);
  if (pass.count <= 4) return SumQuantizeLoop<Parts, 2>(block, pass, out, others);
  if (pass.count <= 8) return SumQuantizeLoop<Parts, 4>(block, pass, out, others);
  static_assert(kTermsPerPass == 16);
  return SumQuantizeLoop<Parts, 8>(block, pass, out, others);
}

}  // namespace

int64_t SumQuantize(const BlockFormat& format, const TermPass& pass, MutableBlocks out,
                    OtherBlocks& others) {
  if (format.code == CodeType::kInt8) {
    return SumQuantizeParts<Int8Parts>(format.block, pass, out, others);
  }
  return SumQuantizeParts<Int4Parts>(format.block, pass, out, others);
}

}  // namespace thinwire::kernels::THINWIRE_ISA
