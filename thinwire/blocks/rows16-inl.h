// Only for x_isa.cc: 16 rows side by side in vector registers, as many as that takes, and the steps
// of products on them. What needs more than the compiler's vector types is in rows16_<isa>-inl.h:
//
//   kVectorBytes     of a register
//   kOffsetCodes     whether Dot takes codes as unsigned numbers with an offset, u = code + zero,
//   so
//                    that sums start at -zero * (sum of the activations' codes); else codes are
//                    signed and sums start at 0
//   kPanelTokens     whose sums of 16 rows registers have room for
//   kFewInRegisters  whether codes of a few tokens' products are best taken apart as they are used;
//                    else there are too few registers, and the code would be long
//   Fma              a * b + c; rounded once where the instruction set has it
//   Dot              sum += 4 codes of each row times 4 int8 codes at `in`, exact
//   Halves, Brains   16 fp16 or bf16 numbers, as fp32
//   Lookup           the byte of `table` that the lower four bits of each byte name; its upper four
//                    are 0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "thinwire/base/dtype.h"
#include "thinwire/blocks/rows16_types-inl.h"

// Every 64-bit Arm has NEON, so the compiler's macros do not tell which of its builds this is.
#if defined(__AVX512F__)
#include "thinwire/blocks/rows16_avx512-inl.h"
#elif defined(__AVX2__)
#include "thinwire/blocks/rows16_avx2-inl.h"
#elif THINWIRE_ROWS(THINWIRE_ISA)
#include "thinwire/blocks/rows16_neon-inl.h"
#else
#include "thinwire/blocks/rows16_scalar-inl.h"
#endif

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

// A register at a time: GCC takes copies of whole structs through other registers.
template <typename Rows>
THINWIRE_ROWS_CALL Rows LoadRows(const std::byte* in) {
  Rows out;
  for (int p = 0; p < kParts; ++p) {
    __builtin_memcpy(&out.v[p], in + p * kVectorBytes, sizeof(out.v[p]));
  }
  return out;
}
THINWIRE_INLINE Words LoadWords(const std::byte* in) { return LoadRows<Words>(in); }
THINWIRE_INLINE Floats LoadFloats(const std::byte* in) { return LoadRows<Floats>(in); }
template <typename Rows>
THINWIRE_ROWS_CALL void StoreRows(std::byte* out, const Rows& x) {
  for (int p = 0; p < kParts; ++p) {
    __builtin_memcpy(out + p * kVectorBytes, &x.v[p], sizeof(x.v[p]));
  }
}

THINWIRE_INLINE float FloatAt(const std::byte* in) {
  float out;
  __builtin_memcpy(&out, in, sizeof(out));
  return out;
}
THINWIRE_INLINE int32_t IntAt(const std::byte* in) {
  int32_t out;
  __builtin_memcpy(&out, in, sizeof(out));
  return out;
}

THINWIRE_ROWS_CALL Floats EveryRow(float x) {
  Floats out;
  for (int p = 0; p < kParts; ++p) out.v[p] = x - NativeFloats{};
  return out;
}
THINWIRE_ROWS_CALL Ints EveryRow(int32_t x) {
  Ints out;
  for (int p = 0; p < kParts; ++p) out.v[p] = x - NativeInts{};
  return out;
}

// (x >> kRight) & kMask, bytewise: shifts are of 32 bits, so the mask keeps what the byte beside
// would bring. Negative shifts go to the left.
template <int kRight, uint32_t kMask>
THINWIRE_ROWS_CALL Words Bits(Words x) {
  for (int p = 0; p < kParts; ++p) {
    if constexpr (kRight > 0) x.v[p] >>= kRight;
    if constexpr (kRight < 0) x.v[p] <<= -kRight;
    x.v[p] &= kMask * 0x01010101u;
  }
  return x;
}

THINWIRE_ROWS_CALL Words Or(Words a, const Words& b) {
  for (int p = 0; p < kParts; ++p) a.v[p] |= b.v[p];
  return a;
}

// Adds kAdded to each byte.
template <int kAdded>
THINWIRE_ROWS_CALL Words AddBytes(Words x) {
  if constexpr (kAdded == 0) return x;
  for (int p = 0; p < kParts; ++p) {
    const NativeBytes bytes = reinterpret_cast<NativeBytes>(x.v[p]);
    const NativeBytes added = static_cast<uint8_t>(kAdded) - NativeBytes{};
    x.v[p] = reinterpret_cast<NativeWords>(bytes + added);
  }
  return x;
}

// Byte kByte of each word, as a number: bits kLow and up, kBits of them.
template <int kByte, int kLow, int kBits>
THINWIRE_ROWS_CALL Ints Unsigned(Words x) {
  Ints out;
  for (int p = 0; p < kParts; ++p) {
    out.v[p] = reinterpret_cast<NativeInts>((x.v[p] >> (8 * kByte + kLow)) & ((1u << kBits) - 1));
  }
  return out;
}
template <int kByte>
THINWIRE_ROWS_CALL Ints Signed(Words x) {
  Ints out;
  for (int p = 0; p < kParts; ++p) {
    out.v[p] = reinterpret_cast<NativeInts>(x.v[p] << (24 - 8 * kByte)) >> 24;
  }
  return out;
}

THINWIRE_ROWS_CALL Floats ToFloats(const Ints& x) {
  Floats out;
  for (int p = 0; p < kParts; ++p) out.v[p] = __builtin_convertvector(x.v[p], NativeFloats);
  return out;
}
THINWIRE_ROWS_CALL Floats operator*(Floats a, const Floats& b) {
  for (int p = 0; p < kParts; ++p) a.v[p] *= b.v[p];
  return a;
}
THINWIRE_ROWS_CALL Floats operator*(Floats a, float b) {
  for (int p = 0; p < kParts; ++p) a.v[p] *= b;
  return a;
}
THINWIRE_ROWS_CALL Floats operator+(Floats a, const Floats& b) {
  for (int p = 0; p < kParts; ++p) a.v[p] += b.v[p];
  return a;
}
THINWIRE_ROWS_CALL Ints operator-(Ints a, int32_t b) {
  for (int p = 0; p < kParts; ++p) a.v[p] -= b;
  return a;
}

}  // namespace
}  // namespace thinwire::blocks::THINWIRE_ISA
