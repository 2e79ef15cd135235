#include "thinwire/zero/recipe.h"

#include "thinwire/base/error.h"

namespace thinwire::zero {

std::vector<std::string> RecipeNames() { return {"zero3", "hpz"}; }

Recipe MakeRecipe(std::string_view name, DType wire) {
  const codec::Codec* raw = &codec::Raw(wire);
  if (name == "zero3") return {std::string(name), Kept::kNothing, raw, raw, raw, raw, raw};
  if (name == "hpz") return {std::string(name), Kept::kValues, raw, raw, raw, raw, raw};
  std::string known;
  for (const std::string& recipe : RecipeNames()) known += (known.empty() ? "" : ", ") + recipe;
  throw UsageError(StrCat("recipe \"", name, "\" is not known: choose one of ", known));
}

}  // namespace thinwire::zero
