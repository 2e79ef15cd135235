// How often each byte value occurs in packed codes: families of static tables for the coder in
// entropy.h. They are part of what goes over wires, so they come from integers alone, the same on
// every machine (entropy_tables_test.cc holds their checksums).
//
// A table is a distribution of codes, put together to bytes as if codes were independent:
//
//   spread   codes at distance c from 0 have weight exp(-c^2 / (2 s^2)) (normal), exp(-c / s)
//            (Laplace), or 85 % of the first and 15 % of the first at 2 s (heavy tail); s goes down
//            in steps of sqrt(2) from the largest code times 0.7. Ternary: the share of zeros.
//   zeros    0, 1/2 or 7/8 of the bytes stand for zeros on top of that: rows that nothing touched
//
// Of normal, Laplace and Student-t elements (3 degrees of freedom) in blocks of 128 the best table
// of a family is within 1.8 % of the entropy of their bytes, of normal ones within 0.4 %.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace thinwire::kernels {

// What the bytes are: codes as quantize.h and low_bits.h store them (of int3, six bits at a time),
// or distances from a prediction, small ones first.
enum class SymbolModel : uint8_t { kInt8, kInt4, kInt3, kTernary, kDistances };
constexpr int kSymbolModels = 5;

constexpr int kSymbols = 256;
constexpr int kFrequencyBits = 12;

struct EntropyTable {
  std::array<uint16_t, kSymbols> frequencies;  // they add up to 2^12; 0: no such symbol
  std::array<uint16_t, kSymbols> costs;        // in 1/256 bit; of symbols without frequency, most
  std::array<uint32_t, kSymbols> encoder;      // frequency | sum of those before << 16
};

// At most 255, all with the same symbols. Made at the first call, kept as long as the program runs.
std::span<const EntropyTable> TablesOf(SymbolModel model);

// For each of 2^12 slots, in which a symbol has as many as its frequency, in order:
// symbol | frequency << 8 | slots of the same symbol before << 20.
using DecoderTable = std::array<uint32_t, 1 << kFrequencyBits>;
void MakeDecoder(const EntropyTable& table, DecoderTable& decoder);

}  // namespace thinwire::kernels
