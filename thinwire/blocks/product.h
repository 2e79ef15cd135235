// Products of packed weights with rows of activations: out[token][row] = sum over k of
// W[row][k] * x[token][k], in fp32.
//
// Weights in integers: the activations' codes (activations.h) and the weights' are multiplied and
// summed exactly over 32 columns, 16 where the type has scales per 16; scales, minima and the sum
// over a row are fp32. So with exact products as reference the error of an output is
//
//   at most  sum over blocks of s/2 (1 + 2^-14) * (sum over the block of |W[row][k]|)
//
// s the scale of the activations' block, plus the rounding of columns / 8 additions in fp32.
// Weights in F32, F16 and BF16: fp32 throughout, rounding alone. Instruction sets differ in that
// rounding only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "thinwire/base/context.h"
#include "thinwire/blocks/activations.h"
#include "thinwire/blocks/packed.h"

namespace thinwire::blocks {

// One matrix and where its product goes: out[token * stride + row].
struct Product {
  PackedMatrix weights;
  float* out = nullptr;
  int64_t stride = 0;
  const float* bias = nullptr;  // added to the row of every token, where given
  bool add = false;             // to what is in `out`, else written over it
};

// Scratch for one thread, whatever the number of tokens.
int64_t ScratchBytes(WeightType type, int64_t columns);

// Computes the rows of groups [begin, end) of the matrices' groups, numbered through: threads take
// disjoint ranges. All matrices have the activations' columns and form. `scratch` is aligned to 64
// and has what the largest of the matrices needs. Allocates nothing.
void Multiply(const ExecContext& context, std::span<const Product> products,
              const Activations& activations, int64_t begin, int64_t end,
              std::span<std::byte> scratch);

// How many groups there are.
int64_t Groups(std::span<const Product> products);

}  // namespace thinwire::blocks
