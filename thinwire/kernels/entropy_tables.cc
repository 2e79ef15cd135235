#include "thinwire/kernels/entropy_tables.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"

namespace thinwire::kernels {
namespace {

constexpr uint32_t kSlots = 1u << kFrequencyBits;

using ByteWeights = std::array<uint64_t, kSymbols>;  // that add up to less than 2^41

// 2^32 exp(-2^-16), 2^32 exp(-2^-7.5) and 2^32 exp(-2^-7): their squares are the other rates.
constexpr uint64_t kNormalRate = 4294901760;
constexpr uint64_t kLaplaceRateOfEvenSpread = 4271306145;
constexpr uint64_t kLaplaceRateOfOddSpread = 4261543595;

constexpr uint64_t Product(uint64_t a, uint64_t b) { return a * b >> 32; }  // of fractions of 2^32

constexpr uint64_t Squared(uint64_t rate, int times) {
  for (; times > 0; --times) rate = Product(rate, rate);
  return rate;
}

enum class Shape : uint8_t { kNormal, kLaplace, kHeavyTail };

// Spread s of step j is 2^(7.5 - j / 2).
constexpr int kDistance = 257;
using DistanceWeights = std::array<uint64_t, kDistance>;  // of distances 0 to 256, below 2^33

DistanceWeights NormalWeights(int step) {
  const uint64_t rate = Squared(kNormalRate, step);
  DistanceWeights weights;
  uint64_t weight = uint64_t{1} << 32, ratio = rate;  // exp(-c^2 ...) by its growing ratios
  for (uint64_t& each : weights) {
    each = weight;
    weight = Product(weight, ratio);
    ratio = Product(Product(ratio, rate), rate);
  }
  return weights;
}

DistanceWeights LaplaceWeights(int step) {
  const uint64_t rate =
      Squared(step % 2 == 0 ? kLaplaceRateOfEvenSpread : kLaplaceRateOfOddSpread, step / 2);
  DistanceWeights weights;
  uint64_t weight = uint64_t{1} << 32;
  for (uint64_t& each : weights) {
    each = weight;
    weight = Product(weight, rate);
  }
  return weights;
}

// Codes of one family: `count` values from `first` on.
struct Codes {
  int first;
  int count;
};

// As 2^-20 of their sum, none of them 0.
std::vector<uint64_t> Normalized(const Codes& codes, const DistanceWeights& of_distance) {
  std::vector<uint64_t> weights;
  uint64_t sum = 0;
  for (int c = codes.first; c < codes.first + codes.count; ++c) {
    weights.push_back(of_distance[static_cast<size_t>(c < 0 ? -c : c)]);
    sum += weights.back();
  }
  for (uint64_t& weight : weights) weight = std::max<uint64_t>(1, (weight << 20) / sum);
  return weights;
}

std::vector<uint64_t> CodeWeights(const Codes& codes, Shape shape, int step) {
  if (shape == Shape::kLaplace) return Normalized(codes, LaplaceWeights(step));
  std::vector<uint64_t> weights = Normalized(codes, NormalWeights(step));
  if (shape == Shape::kNormal) return weights;
  const std::vector<uint64_t> wide = Normalized(codes, NormalWeights(step - 2));
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = (85 * weights[i] + 15 * wide[i]) / 100;
  for (uint64_t& weight : weights) weight = std::max<uint64_t>(1, weight);
  return weights;
}

// Two's complement codes of `bits`, as many as a symbol has room for, the first one lowest.
ByteWeights OfPackedCodes(const std::vector<uint64_t>& codes, int bits, int symbol_bits) {
  ByteWeights weights{};
  const int size = 1 << bits, mask = size - 1;
  for (int symbol = 0; symbol < 1 << symbol_bits; ++symbol) {
    uint64_t weight = uint64_t{1} << 20;  // of int8, else it is the second code's
    if (symbol_bits > bits)
      weight = codes[static_cast<size_t>(((symbol >> bits) + size / 2) & mask)];
    weights[static_cast<size_t>(symbol)] =
        weight * codes[static_cast<size_t>(((symbol & mask) + size / 2) & mask)];
  }
  return weights;
}

// Five codes to a byte, as low_bits.h stores them. `zeros` of 4096 codes are 0.
ByteWeights OfTernary(uint64_t zeros) {
  const std::array<uint64_t, 3> code{(4096 - zeros) / 2, zeros, (4096 - zeros) / 2};
  ByteWeights weights{};
  for (size_t number = 0; number < 243; ++number) {
    uint64_t weight = 1;
    for (size_t rest = number, digit = 0; digit < 5; ++digit, rest /= 3) weight *= code[rest % 3];
    weights[number + (55 * number + 1003) / 1024] = std::max<uint64_t>(1, weight >> 20);
  }
  return weights;
}

uint64_t SumOf(const ByteWeights& weights) {
  uint64_t sum = 0;
  for (const uint64_t weight : weights) sum += weight;
  return sum;
}

ByteWeights Mean(const ByteWeights& a, const ByteWeights& b) {
  ByteWeights mean{};
  for (size_t i = 0; i < kSymbols; ++i)
    mean[i] = a[i] == 0 ? 0 : std::max(a[i] / 2 + b[i] / 2, uint64_t{1});
  return mean;
}

ByteWeights WithZeros(ByteWeights weights, size_t zero, uint64_t eighths) {
  const uint64_t sum = SumOf(weights);
  for (uint64_t& weight : weights) {
    if (weight > 0) weight = std::max<uint64_t>(1, weight * (8 - eighths) / 8);
  }
  weights[zero] += sum / 8 * eighths;
  return weights;
}

// Proportional to the weights, but at least 1 where these are not 0; they add up to kSlots.
std::array<uint16_t, kSymbols> Frequencies(const ByteWeights& weights) {
  std::array<uint16_t, kSymbols> frequencies{};
  uint64_t slots = kSlots, sum = SumOf(weights);
  for (bool again = true; std::exchange(again, false);) {
    for (size_t i = 0; i < kSymbols; ++i) {
      if (weights[i] == 0 || frequencies[i] != 0 || weights[i] * slots >= sum) continue;
      frequencies[i] = 1;
      slots -= 1;
      sum -= weights[i];
      again = true;
    }
  }
  uint64_t left = slots;
  for (size_t i = 0; i < kSymbols; ++i) {
    if (weights[i] == 0 || frequencies[i] != 0) continue;
    frequencies[i] = static_cast<uint16_t>(weights[i] * slots / sum);
    left -= frequencies[i];
  }
  // One more slot saves weight * log((f + 1) / f), about weight / (f + 1/2).
  for (; left > 0; --left) {
    size_t best = 0;
    for (size_t i = 1; i < kSymbols; ++i) {
      if (weights[i] * (2u * frequencies[best] + 1) > weights[best] * (2u * frequencies[i] + 1)) {
        best = i;
      }
    }
    frequencies[best] = static_cast<uint16_t>(frequencies[best] + 1);
  }
  return frequencies;
}

// log2(kSlots / frequency) in 1/256, rounded down: the bits of a logarithm by squaring.
uint16_t CostOf(uint32_t frequency) {
  if (frequency == 0) return 0xffff;
  const int whole = static_cast<int>(std::bit_width(frequency)) - 1;
  uint64_t mantissa = uint64_t{frequency} << (31 - whole);  // in [2^31, 2^32)
  uint32_t logarithm = static_cast<uint32_t>(whole);
  for (int bit = 0; bit < 8; ++bit) {
    mantissa = mantissa * mantissa >> 31;
    const bool carry = mantissa >> 32 != 0;
    logarithm = 2 * logarithm + carry;
    if (carry) mantissa >>= 1;
  }
  return static_cast<uint16_t>((kFrequencyBits << 8) - logarithm);
}

EntropyTable TableOf(const ByteWeights& weights) {
  EntropyTable table{.frequencies = Frequencies(weights), .costs = {}, .encoder = {}};
  uint32_t before = 0;
  for (size_t i = 0; i < kSymbols; ++i) {
    table.costs[i] = CostOf(table.frequencies[i]);
    table.encoder[i] = table.frequencies[i] | before << 16;
    before += table.frequencies[i];
  }
  THINWIRE_CHECK(before == kSlots, before);
  return table;
}

void AddWithZeros(const ByteWeights& weights, size_t zero, std::vector<EntropyTable>& tables) {
  for (const uint64_t eighths : {0u, 4u, 7u}) {
    tables.push_back(TableOf(WithZeros(weights, zero, eighths)));
  }
}

// Spreads of steps `from` to `to`, in every shape.
std::vector<EntropyTable> OfCodes(const Codes& codes, int bits, int symbol_bits, int from, int to) {
  std::vector<EntropyTable> tables;
  for (int step = from; step <= to; ++step) {
    for (const Shape shape : {Shape::kNormal, Shape::kLaplace, Shape::kHeavyTail}) {
      AddWithZeros(OfPackedCodes(CodeWeights(codes, shape, step), bits, symbol_bits), 0, tables);
    }
  }
  return tables;
}

std::vector<EntropyTable> OfDistances() {
  std::vector<EntropyTable> tables;
  for (int step = 2; step <= 18; ++step) {
    for (const Shape shape : {Shape::kNormal, Shape::kLaplace, Shape::kHeavyTail}) {
      ByteWeights weights{};
      std::ranges::copy(CodeWeights({0, kSymbols}, shape, step), weights.begin());
      for (uint64_t& weight : weights) weight <<= 20;
      AddWithZeros(weights, 0, tables);
    }
  }
  return tables;
}

std::vector<EntropyTable> OfTernaryCodes() {
  constexpr size_t kZero = 128;  // the byte of five zeros
  std::vector<EntropyTable> tables;
  for (uint64_t zeros = 1366; zeros < 4096; zeros += 273) {  // from 1/3 to 1
    AddWithZeros(OfTernary(zeros), kZero, tables);
    // Of blocks that differ: as many with 0.3 as with 1.7 times the codes that are not 0.
    if (zeros < 1900) continue;
    const uint64_t others = 4096 - zeros;
    AddWithZeros(Mean(OfTernary(4096 - others * 3 / 10), OfTernary(4096 - others * 17 / 10)), kZero,
                 tables);
  }
  return tables;
}

std::vector<EntropyTable> TablesFor(SymbolModel model) {
  switch (model) {
    case SymbolModel::kInt8:
      return OfCodes({-128, 256}, 8, 8, 2, 12);
    case SymbolModel::kInt4:
      return OfCodes({-8, 16}, 4, 8, 10, 18);
    case SymbolModel::kInt3:
      return OfCodes({-4, 8}, 3, 6, 12, 18);
    case SymbolModel::kTernary:
      return OfTernaryCodes();
    case SymbolModel::kDistances:
      return OfDistances();
  }
  return {};
}

template <SymbolModel kModel>
std::span<const EntropyTable> Tables() {
  static const std::vector<EntropyTable> kTables = TablesFor(kModel);
  return kTables;
}

}  // namespace

std::span<const EntropyTable> TablesOf(SymbolModel model) {
  switch (model) {
    case SymbolModel::kInt8:
      return Tables<SymbolModel::kInt8>();
    case SymbolModel::kInt4:
      return Tables<SymbolModel::kInt4>();
    case SymbolModel::kInt3:
      return Tables<SymbolModel::kInt3>();
    case SymbolModel::kTernary:
      return Tables<SymbolModel::kTernary>();
    case SymbolModel::kDistances:
      return Tables<SymbolModel::kDistances>();
  }
  return {};
}

void MakeDecoder(const EntropyTable& table, DecoderTable& decoder) {
  uint32_t* slot = decoder.data();
  for (uint32_t symbol = 0; symbol < kSymbols; ++symbol) {
    const uint32_t frequency = table.frequencies[symbol];
    for (uint32_t i = 0; i < frequency; ++i) *slot++ = symbol | frequency << 8 | i << 20;
  }
}

}  // namespace thinwire::kernels
