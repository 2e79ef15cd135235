#include "thinwire/zero/recipe.h"

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/codec/block.h"
#include "thinwire/codec/by_name.h"

namespace thinwire::zero {

std::optional<DType> RawType(const codec::Codec& codec) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (NameOf(type) == codec.name()) return type;
  }
  return std::nullopt;
}

CodecPtr RawCodec(DType type) { return codec::ByName(NameOf(type), "the wire type"); }

std::vector<HopChoice> HopsOf(const Recipe& recipe) {
  const auto name = [](const CodecPtr& codec) {
    return codec == nullptr ? std::string("codes") : std::string(codec->name());
  };
  const auto reduce = [&](const CodecPtr& codec) {
    const bool rotated = recipe.rotation != 0 && !IsRaw(*codec);
    return StrCat(rotated ? codec::RotationPrefix(recipe.rotation) : "", codec->name());
  };
  const auto kept =
      std::ranges::find(kKeptNames, recipe.kept, &std::pair<std::string_view, Kept>::second);
  return {{"slow_gather", name(recipe.slow_gather)},
          {"fast_gather", name(recipe.fast_gather)},
          {"fast_reduce", reduce(recipe.fast_reduce)},
          {"slow_reduce", reduce(recipe.slow_reduce)},
          {"keep", std::string(kept->first)},
          {"feedback", recipe.feedback == nullptr ? "nothing" : name(recipe.feedback)}};
}

std::vector<std::string> RecipeNames() {
  std::vector<std::string> names;
  for (const NamedRecipe& each : kNamedRecipes) names.emplace_back(each.name);
  return names;
}

Recipe Adapt(Recipe recipe, int hosts, DType wire) {
  if (hosts > 1) return recipe;
  const CodecPtr raw = RawCodec(wire);
  if (recipe.kept != Kept::kNothing) {
    recipe.kept = Kept::kNothing;
    recipe.remarks.push_back("nothing is kept: there is one host, and no slow link to spare");
  }
  const auto codes = [](const CodecPtr& codec) { return codec == nullptr || !IsRaw(*codec); };
  if (codes(recipe.fast_gather) || codes(recipe.fast_reduce)) {
    recipe.remarks.push_back(StrCat("the hops inside the host carry ", NameOf(wire),
                                    " as it is: coding them gains nothing on one host"));
  }
  recipe.slow_gather = recipe.slow_reduce = raw;
  recipe.rotation = 0;
  recipe.feedback = nullptr;
  for (CodecPtr* fast : {&recipe.fast_gather, &recipe.fast_reduce}) {
    if (codes(*fast)) *fast = raw;
  }
  return recipe;
}

Recipe AdaptToStage(Recipe recipe, int stage, DType wire) {
  if (stage >= 3 || recipe.kept == Kept::kNothing) return recipe;
  if (recipe.kept == Kept::kReference) {
    if (!IsRaw(*recipe.fast_gather)) {
      recipe.fast_gather = RawCodec(wire);
      recipe.remarks.push_back(StrCat("the fast gather carries ", NameOf(wire),
                                      " as it is: below stage 3 the weights that it brings are the "
                                      "reference of the next step"));
    }
    return recipe;
  }
  recipe.kept = Kept::kNothing;
  recipe.remarks.push_back(
      StrCat("no slice is kept: at stage ", stage, " each rank has all weights anyway"));
  return recipe;
}

}  // namespace thinwire::zero
