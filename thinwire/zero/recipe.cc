#include "thinwire/zero/recipe.h"

#include "thinwire/base/error.h"

namespace thinwire::zero {
namespace {

// Raw codecs live as long as the program: nothing to own.
CodecPtr Raw(DType dtype) { return {std::shared_ptr<const void>(), &codec::Raw(dtype)}; }

}  // namespace

std::vector<std::string> RecipeNames() { return {"zero3", "hpz"}; }

Recipe MakeRecipe(std::string_view name, DType wire) {
  const CodecPtr raw = Raw(wire);
  Recipe recipe{.name = std::string(name),
                .kept = Kept::kNothing,
                .slow_gather = raw,
                .fast_gather = raw,
                .fast_reduce = raw,
                .slow_reduce = raw,
                .vectors = raw,
                .remarks = {}};
  if (name == "zero3") return recipe;
  if (name == "hpz") {
    recipe.kept = Kept::kValues;
    return recipe;
  }
  std::string known;
  for (const std::string& each : RecipeNames()) known += (known.empty() ? "" : ", ") + each;
  throw UsageError(StrCat("recipe \"", name, "\" is not known: choose one of ", known));
}

Recipe Adapt(Recipe recipe, int hosts, DType wire) {
  if (hosts > 1) return recipe;
  const CodecPtr raw = Raw(wire);
  if (recipe.kept != Kept::kNothing) {
    recipe.kept = Kept::kNothing;
    recipe.remarks.push_back("nothing is kept: there is one host, and no slow link to spare");
  }
  const auto same = [&](const CodecPtr& codec) { return codec && codec->name() == raw->name(); };
  if (!same(recipe.fast_gather) || !same(recipe.fast_reduce)) {
    recipe.remarks.push_back(StrCat("fast hops carry ", NameOf(wire),
                                    " as it is: coding them would gain nothing on one host"));
  }
  recipe.slow_gather = recipe.fast_gather = recipe.fast_reduce = recipe.slow_reduce = raw;
  return recipe;
}

}  // namespace thinwire::zero
