// Which type each tensor of a GGUF file is to have after `thinwire quantize`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/weight_type.h"
#include "thinwire/io/gguf_format.h"

namespace thinwire::infer {

struct QuantizePlan {
  std::vector<WeightType> types;   // of each tensor
  uint32_t file_type = 0;          // general.file_type, as llama.cpp numbers it
  std::vector<std::string> notes;  // where a tensor's type is not what was asked for, and warnings
};

// The names of recipes: weight types, and mixes of them (Q3_K_M, Q4_K_M, Q5_K_M).
std::string QuantizeRecipes();

// `recipe` is one of these; `overrides` are "PATTERN=TYPE", where * in a pattern stands for any
// text and the last pattern that fits a name counts.
//
// Matrices get the recipe's type, but for
//   - the output head (output.weight, or token_embd.weight where the head is tied to it), which
//     decides each token alone: at least Q6_K;
//   - routers of experts, tables of positions and what is called no weight: they keep theirs;
//   - rows that are no multiple of the type's block: those of 256 fall back to a type with blocks
//   of
//     32 and about as many bits, those of 32 to F16.
// Vectors (norms, biases) become F32.
//
// Throws UsageError on an unknown recipe or type, a pattern that fits no tensor, and one whose type
// does not fit the rows.
QuantizePlan PlanQuantize(std::span<const io::GgufTensor> tensors, std::string_view recipe,
                          std::span<const std::string> overrides);

}  // namespace thinwire::infer
