// Only for rows16-inl.h: plain loops.
#pragma once

#include "thinwire/blocks/rows16_types-inl.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

constexpr bool kOffsetCodes = true;
constexpr int kPanelTokens = 4;
constexpr bool kFewInRegisters = false;

THINWIRE_ROWS_CALL Floats Fma(const Floats& a, const Floats& b, const Floats& c) {
  Floats out;
  for (int p = 0; p < kParts; ++p) out.v[p] = a.v[p] * b.v[p] + c.v[p];
  return out;
}

THINWIRE_ROWS_CALL void Dot(Ints& sum, const Words& codes, const std::byte* in) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&codes);
  const auto* activations = reinterpret_cast<const int8_t*>(in);
  for (int row = 0; row < 16; ++row) {
    int32_t dot = 0;
    for (int i = 0; i < 4; ++i) dot += bytes[4 * row + i] * activations[i];
    sum.v[row / 4][row % 4] += dot;
  }
}

template <typename Number>
THINWIRE_ROWS_CALL Floats Widened(const std::byte* in) {
  Floats out;
  for (int row = 0; row < 16; ++row) {
    Number number;
    __builtin_memcpy(&number, in + 2 * row, sizeof(number));
    out.v[row / 4][row % 4] = ToFloat(number);
  }
  return out;
}
THINWIRE_ROWS_CALL Floats Halves(const std::byte* in) { return Widened<FP16>(in); }
THINWIRE_ROWS_CALL Floats Brains(const std::byte* in) { return Widened<BF16>(in); }
THINWIRE_ROWS_CALL Ints Bytes(const std::byte* in) {
  Ints out;
  for (int row = 0; row < 16; ++row) out.v[row / 4][row % 4] = static_cast<int32_t>(in[row]);
  return out;
}

THINWIRE_ROWS_CALL Words Lookup(const uint8_t (&table)[16], const Words& x) {
  Words out;
  const auto* from = reinterpret_cast<const uint8_t*>(&x);
  auto* to = reinterpret_cast<uint8_t*>(&out);
  for (int i = 0; i < 64; ++i) to[i] = table[from[i]];
  return out;
}

}  // namespace
}  // namespace thinwire::blocks::THINWIRE_ISA
