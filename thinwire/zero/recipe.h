// Recipes: which codec sits on each hop, and what a rank keeps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/codec/codec.h"

namespace thinwire::zero {

// What a rank keeps between steps so that the slow gather is a push after the optimizer step.
enum class Kept : uint8_t {
  kNothing,  // weights are pulled before each use
  kValues,   // its host slice in compute dtype (hpZ): 2 M/L bytes in bf16
};

struct Recipe {
  std::string name;
  Kept kept = Kept::kNothing;
  const codec::Codec* slow_gather = nullptr;
  const codec::Codec* fast_gather = nullptr;
  const codec::Codec* fast_reduce = nullptr;
  const codec::Codec* slow_reduce = nullptr;
  const codec::Codec* vectors = nullptr;  // 1-D parameters, on every hop: a raw codec
};

// "zero3" or "hpz" with the raw codec of `wire` on every hop. Throws UsageError on another name.
Recipe MakeRecipe(std::string_view name, DType wire);
std::vector<std::string> RecipeNames();

}  // namespace thinwire::zero
