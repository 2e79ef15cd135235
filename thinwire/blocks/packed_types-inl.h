// Only for x_isa.cc: the codes, scales and minima of 16 rows from a cell (packed_layout.h), per
// weight type. A value is scale * (code - kZero) + minimum. Of block b (32 columns) of a cell:
//
//   Codes<b, v>    columns 4 v to 4 v + 3 of the block, 0 <= v < 8
//   Scale<b, h>    of columns 16 h to 16 h + 15 where kScales is 2; h = 0 for all 32 where it is 1
//   Minimum<b, h>  the same way, where kMinimum, times -1/128: the sums that it is multiplied with
//                  are times -128 (activations_layout.h)
#pragma once

#include "thinwire/blocks/rows16-inl.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

template <int kV>
THINWIRE_INLINE Words Nibbles(const std::byte* in) {
  return Bits<(kV < 4 ? 0 : 4), 15>(LoadWords(in + 64 * (kV % 4)));
}

constexpr float kMinimumFactor = -1.0f / 128;

struct Q4_0Rows {
  static constexpr int kCellBytes = 16 * 18;
  static constexpr int kCellBlocks = 1;
  static constexpr int kScales = 1;
  static constexpr bool kMinimum = false;
  static constexpr int kZero = 8;
  template <int, int kV>
  THINWIRE_INLINE static Words Codes(const std::byte* cell) {
    return Nibbles<kV>(cell);
  }
  template <int, int>
  THINWIRE_INLINE static Floats Scale(const std::byte* cell) {
    return Halves(cell + 256);
  }
};

struct Q4_1Rows : Q4_0Rows {
  static constexpr int kCellBytes = 16 * 20;
  static constexpr bool kMinimum = true;
  static constexpr int kZero = 0;
  template <int, int>
  THINWIRE_INLINE static Floats Minimum(const std::byte* cell) {
    return Halves(cell + 288) * kMinimumFactor;
  }
};

struct Q5_0Rows : Q4_0Rows {
  static constexpr int kCellBytes = 16 * 22;
  static constexpr int kZero = 16;
  template <int, int kV>
  THINWIRE_INLINE static Words Codes(const std::byte* cell) {
    return Or(Nibbles<kV>(cell), Bits<kV - 4, 16>(LoadWords(cell + 256)));
  }
  template <int, int>
  THINWIRE_INLINE static Floats Scale(const std::byte* cell) {
    return Halves(cell + 320);
  }
};

struct Q5_1Rows : Q5_0Rows {
  static constexpr int kCellBytes = 16 * 24;
  static constexpr bool kMinimum = true;
  static constexpr int kZero = 0;
  template <int, int>
  THINWIRE_INLINE static Floats Minimum(const std::byte* cell) {
    return Halves(cell + 352) * kMinimumFactor;
  }
};

struct Q8_0Rows : Q4_0Rows {
  static constexpr int kCellBytes = 16 * 34;
  static constexpr int kZero = 128;
  template <int, int kV>
  THINWIRE_INLINE static Words Codes(const std::byte* cell) {
    return LoadWords(cell + 64 * kV);
  }
  template <int, int>
  THINWIRE_INLINE static Floats Scale(const std::byte* cell) {
    return Halves(cell + 512);
  }
};

struct IQ4_NLRows : Q4_0Rows {
  static constexpr int kZero = 128;
  static constexpr uint8_t kValues[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                          129, 141, 153, 166, 181, 197, 217, 241};
  template <int, int kV>
  THINWIRE_INLINE static Words Codes(const std::byte* cell) {
    return Lookup(kValues, Nibbles<kV>(cell));
  }
};

struct MXFP4Rows : Q4_0Rows {
  static constexpr int kCellBytes = 16 * 17;
  static constexpr int kZero = 16;
  static constexpr uint8_t kValues[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                          16, 15, 14, 13, 12, 10, 8,  4};
  template <int, int kV>
  THINWIRE_INLINE static Words Codes(const std::byte* cell) {
    return Lookup(kValues, Nibbles<kV>(cell));
  }
  // 2^(exponent - 128); those of exponents 0 and 1 are subnormal.
  template <int, int>
  THINWIRE_INLINE static Floats Scale(const std::byte* cell) {
    const Ints exponents = Bytes(cell + 256);
    Floats out;
    for (int p = 0; p < kParts; ++p) {
      const NativeInts e = exponents.v[p];
      const NativeInts bits = e < 2 ? (e + 1) << 21 : (e - 1) << 23;
      out.v[p] = reinterpret_cast<NativeFloats>(bits);
    }
    return out;
  }
};

// Blocks of 256 columns: 8 of 32, where block b has the two bits or the nibble number b % 4 or b %
// 2 of the bytes that it shares with others.
struct Q2_KRows {
  static constexpr int kCellBytes = 16 * 84;
  static constexpr int kCellBlocks = 8;
  static constexpr int kScales = 2;
  static constexpr bool kMinimum = true;
  static constexpr int kZero = 0;
  template <int kBlock, int kV>
  THINWIRE_INLINE static Words Codes(const std::byte* cell) {
    return Bits<kBlock % 4 * 2, 3>(LoadWords(cell + 320 + 64 * (kBlock / 4 * 8 + kV)));
  }
  template <int kBlock, int kHalf>
  THINWIRE_INLINE static Floats Scale(const std::byte* cell) {
    const Words word = LoadWords(cell + 64 + 64 * (kBlock / 2));
    return Halves(cell) * ToFloats(Unsigned<kBlock % 2 * 2 + kHalf, 0, 4>(word));
  }
  template <int kBlock, int kHalf>
  THINWIRE_INLINE static Floats Minimum(const std::byte* cell) {
    const Words word = LoadWords(cell + 64 + 64 * (kBlock / 2));
    return Halves(cell + 32) * -kMinimumFactor *
           ToFloats(Unsigned<kBlock % 2 * 2 + kHalf, 4, 4>(word));
  }
};

// Of cells whose first field moves: the words, and the scales' factors (packed_layout.h).
THINWIRE_INLINE const std::byte* WordsOf(const std::byte* cell) {
  return cell + (reinterpret_cast<uintptr_t>(cell) & 32);
}
template <typename Rows>
THINWIRE_INLINE Floats Factors(const std::byte* cell) {
  const bool last = (reinterpret_cast<uintptr_t>(cell) & 32) == 0;
  return Halves(cell + (last ? Rows::kCellBytes - 32 : 0));
}

struct Q3_KRows {
  static constexpr int kCellBytes = 16 * 110;
  static constexpr int kCellBlocks = 8;
  static constexpr int kScales = 2;
  static constexpr bool kMinimum = false;
  static constexpr int kZero = 4;
  template <int kBlock, int kV>
  THINWIRE_INLINE static Words Codes(const std::byte* cell) {
    return Or(Bits<kBlock % 4 * 2, 3>(LoadWords(WordsOf(cell) + 704 + 64 * (kBlock / 4 * 8 + kV))),
              Bits<kBlock - 2, 4>(LoadWords(WordsOf(cell) + 192 + 64 * kV)));
  }
  // Scale j = 4 w + i is byte i of: nibble w / 2 of word w % 2, above it the two bits number w of
  // word 2.
  template <int kBlock, int kHalf>
  THINWIRE_INLINE static Floats Scale(const std::byte* cell) {
    constexpr int kWord = kBlock / 2;
    const Words low = Bits<kWord / 2 * 4, 15>(LoadWords(WordsOf(cell) + 64 * (kWord % 2)));
    const Words high = Bits<2 * kWord - 4, 0x30>(LoadWords(WordsOf(cell) + 128));
    const Ints scales = Unsigned<kBlock % 2 * 2 + kHalf, 0, 8>(Or(low, high));
    return Factors<Q3_KRows>(cell) * ToFloats(scales - 32);
  }
};

// Of Q4_K and Q5_K, from their three words of scales: 6 bits each, in the words 0 (scales) and 1
// (minima) for blocks 0 to 3; for blocks 4 to 7 four bits in word 2 and two above those 6.
template <int kBlock, bool kMinima>
THINWIRE_INLINE Ints SixBits(const std::byte* words) {
  const Words six = LoadWords(words + (kMinima ? 64 : 0));
  if constexpr (kBlock < 4) return Unsigned<kBlock, 0, 6>(six);
  const Words four = Bits<(kMinima ? 4 : 0), 15>(LoadWords(words + 128));
  return Unsigned<kBlock % 4, 0, 8>(Or(four, Bits<2, 0x30>(six)));
}

struct Q4_KRows {
  static constexpr int kCellBytes = 16 * 144;
  static constexpr int kCellBlocks = 8;
  static constexpr int kScales = 1;
  static constexpr bool kMinimum = true;
  static constexpr int kZero = 0;
  template <int kBlock, int kV>
  THINWIRE_INLINE static Words Codes(const std::byte* cell) {
    return CodesAt<kBlock, kV>(cell + 256);
  }
  template <int kBlock, int kV>
  THINWIRE_INLINE static Words CodesAt(const std::byte* codes) {
    return Bits<kBlock % 2 * 4, 15>(LoadWords(codes + 64 * (kBlock / 2 * 8 + kV)));
  }
  template <int kBlock, int>
  THINWIRE_INLINE static Floats Scale(const std::byte* cell) {
    return Halves(cell) * ToFloats(SixBits<kBlock, false>(cell + 64));
  }
  template <int kBlock, int>
  THINWIRE_INLINE static Floats Minimum(const std::byte* cell) {
    return Halves(cell + 32) * -kMinimumFactor * ToFloats(SixBits<kBlock, true>(cell + 64));
  }
};

struct Q5_KRows : Q4_KRows {
  static constexpr int kCellBytes = 16 * 176;
  template <int kBlock, int kV>
  THINWIRE_INLINE static Words Codes(const std::byte* cell) {
    return Or(CodesAt<kBlock, kV>(cell + 768),
              Bits<kBlock - 4, 16>(LoadWords(cell + 256 + 64 * kV)));
  }
};

struct Q6_KRows {
  static constexpr int kCellBytes = 16 * 210;
  static constexpr int kCellBlocks = 8;
  static constexpr int kScales = 2;
  static constexpr bool kMinimum = false;
  static constexpr int kZero = 32;
  template <int kBlock, int kV>
  THINWIRE_INLINE static Words Codes(const std::byte* cell) {
    const std::byte* half = WordsOf(cell) + 256 + kBlock / 4 * 1536;
    return Or(Bits<kBlock % 4 / 2 * 4, 15>(LoadWords(half + 512 + 64 * (kBlock % 2 * 8 + kV))),
              Bits<kBlock % 4 * 2 - 4, 0x30>(LoadWords(half + 64 * kV)));
  }
  template <int kBlock, int kHalf>
  THINWIRE_INLINE static Floats Scale(const std::byte* cell) {
    const Words word = LoadWords(WordsOf(cell) + 64 * (kBlock / 2));
    return Factors<Q6_KRows>(cell) * ToFloats(Signed<kBlock % 2 * 2 + kHalf>(word));
  }
};

}  // namespace
}  // namespace thinwire::blocks::THINWIRE_ISA
