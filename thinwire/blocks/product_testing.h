// For tests only: matrices of every weight type, rows of activations, their products in double.
#pragma once

#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/base/random.h"
#include "thinwire/blocks/decode.h"
#include "thinwire/blocks/product.h"

namespace thinwire::blocks {

// Where blocks have fp16 numbers, bytes; -1 for none.
inline std::vector<int64_t> HalvesOf(WeightType type) {
  switch (type) {
    case WeightType::kQ4_0:
    case WeightType::kQ5_0:
    case WeightType::kQ8_0:
    case WeightType::kIQ4_NL:
    case WeightType::kF16:
      return {0};
    case WeightType::kQ4_1:
    case WeightType::kQ5_1:
    case WeightType::kQ4_K:
    case WeightType::kQ5_K:
      return {0, 2};
    case WeightType::kQ2_K:
      return {80, 82};
    case WeightType::kQ3_K:
      return {108};
    case WeightType::kQ6_K:
      return {208};
    default:
      return {};
  }
}

// Random bits in all codes, numbers of moderate size in all scales.
inline std::vector<std::byte> RandomBlocks(WeightType type, int64_t elements, uint64_t key) {
  const CounterRandom random(key);
  const int64_t bytes = WeightBytes(type, elements, "test");
  std::vector<std::byte> blocks(static_cast<size_t>(bytes));
  for (int64_t i = 0; i < bytes; ++i) {
    blocks[static_cast<size_t>(i)] = std::byte(random.Bits(static_cast<uint64_t>(i)) & 255);
  }
  for (int64_t block = 0; block < elements / BlockElements(type); ++block) {
    std::byte* at = blocks.data() + block * BlockBytes(type);
    const double draw = random.Uniform(static_cast<uint64_t>(bytes + block));
    const float value = static_cast<float>(2 * draw - 1);
    for (const int64_t half : HalvesOf(type)) {
      const FP16 number = ToFP16(value * static_cast<float>(half % 4 + 1));
      std::memcpy(at + half, &number, sizeof(number));
    }
    const BF16 brain = ToBF16(value);
    if (type == WeightType::kBF16) std::memcpy(at, &brain, sizeof(brain));
    if (type == WeightType::kF32) std::memcpy(at, &value, sizeof(value));
    if (type == WeightType::kMXFP4) at[0] = std::byte(124 + block % 5);
  }
  return blocks;
}

struct TestMatrix {
  WeightType type;
  int64_t rows, columns;
  std::vector<std::byte> file;
  std::vector<float> values;
  AlignedBuffer memory;
  PackedMatrix packed;

  TestMatrix(WeightType t, int64_t r, int64_t c, uint64_t key)
      : type(t),
        rows(r),
        columns(c),
        file(RandomBlocks(t, r * c, key)),
        values(static_cast<size_t>(r * c)),
        memory(PackedMatrix::Bytes(t, r, c, "test")),
        packed(t, r, c, memory.bytes()) {
    Decode({Isa::kScalar}, type, file, values);
    packed.Pack(0, file);
  }
};

struct TestRows {
  int64_t tokens, columns;
  std::vector<float> x;

  TestRows(int64_t t, int64_t c, uint64_t key) : tokens(t), columns(c), x(size_t(t * c)) {
    const CounterRandom random(key);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.Uniform(i) - 0.4);
  }
};

struct Exact {
  std::vector<double> products;  // [token][row]
  std::vector<double> bounds;    // of the errors, by product.h
};

inline Exact ExactProduct(const TestMatrix& matrix, const TestRows& x) {
  Exact exact;
  const bool codes = FormFor(matrix.type) == ActivationForm::kInt8;
  for (int64_t t = 0; t < x.tokens; ++t) {
    for (int64_t r = 0; r < matrix.rows; ++r) {
      const float* w = matrix.values.data() + r * matrix.columns;
      const float* a = x.x.data() + t * matrix.columns;
      double product = 0, bound = 0, magnitude = 0;
      for (int64_t k = 0; k < matrix.columns; k += 32) {
        double weights = 0, largest = 0;
        for (int64_t i = k; i < k + 32; ++i) {
          product += static_cast<double>(w[i]) * static_cast<double>(a[i]);
          magnitude += std::abs(static_cast<double>(w[i]) * static_cast<double>(a[i]));
          weights += std::abs(static_cast<double>(w[i]));
          largest = std::max(largest, std::abs(static_cast<double>(a[i])));
        }
        if (codes) bound += largest / 127 / 2 * (1 + 0x1p-14) * weights;
      }
      // Minima and codes cancel each other, so that what is rounded is larger than the products.
      const double rounding = 0x1p-24 * static_cast<double>(matrix.columns / 8 + 8);
      exact.products.push_back(product);
      exact.bounds.push_back(bound + 4 * rounding * magnitude);
    }
  }
  return exact;
}

// All groups of a product, one activation row after the other.
inline std::vector<float> ProductOf(Isa isa, const TestMatrix& matrix, const TestRows& x) {
  const ActivationForm form = FormFor(matrix.type);
  const AlignedBuffer memory(Activations::Bytes(form, x.tokens, x.columns));
  const AlignedBuffer scratch(ScratchBytes(matrix.type, x.columns));
  const Activations activations(form, x.tokens, x.columns, memory.bytes());
  activations.Set({isa}, x.x.data(), x.columns);
  std::vector<float> out(static_cast<size_t>(x.tokens * matrix.rows));
  const Product product = {.weights = matrix.packed, .out = out.data(), .stride = matrix.rows};
  Multiply({isa}, {&product, 1}, activations, 0, matrix.packed.groups(), scratch.bytes());
  return out;
}

}  // namespace thinwire::blocks
