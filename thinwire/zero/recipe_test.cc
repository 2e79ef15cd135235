#include "thinwire/zero/recipe.h"

#include <gtest/gtest.h>

#include "thinwire/base/error.h"

namespace thinwire::zero {
namespace {

std::string Summary(const Recipe& recipe) {
  const auto name = [](const CodecPtr& codec) {
    return codec == nullptr ? std::string("codes") : std::string(codec->name());
  };
  const char* kept[] = {"nothing", "values", "codes"};
  return StrCat(name(recipe.slow_gather), " ", name(recipe.fast_gather), " ",
                name(recipe.fast_reduce), " ", name(recipe.slow_reduce), " ",
                kept[static_cast<int>(recipe.kept)], " ", name(recipe.vectors));
}

std::string Of(std::string_view name) { return Summary(MakeRecipe(name, DType::kBF16)); }

TEST(Recipe, NamesMeanTheirCodecs) {
  EXPECT_EQ(Of("zero3"), "bf16 bf16 bf16 bf16 nothing bf16");
  EXPECT_EQ(Of("hpz"), "bf16 bf16 bf16 bf16 values bf16");
  EXPECT_EQ(Of("qwz"), "int8/128 codes bf16 bf16 nothing bf16");
  EXPECT_EQ(Of("qgz"), "bf16 bf16 int4/128 int4/128 nothing bf16");
  EXPECT_EQ(Of("qwz+hpz"), "int8/128 codes bf16 bf16 codes bf16");
  EXPECT_EQ(Of("qgz + qwz"), "int8/128 codes int4/128 int4/128 nothing bf16");
  EXPECT_EQ(Of("hpz+qgz"), "bf16 bf16 int4/128 int4/128 values bf16");
  EXPECT_EQ(Of("zero++"), "int8/128 codes int4/128 int4/128 codes bf16");
  EXPECT_EQ(Of("zero++"), Of("hpz+qwz+qgz"));
  EXPECT_EQ(Summary(MakeRecipe("zero3", DType::kF32)), "fp32 fp32 fp32 fp32 nothing fp32");
  for (const std::string& name : RecipeNames()) EXPECT_EQ(MakeRecipe(name, DType::kF16).name, name);
}

TEST(Recipe, HopByHop) {
  EXPECT_EQ(Of("keep=values"), Of("hpz"));
  EXPECT_EQ(Of("slow_gather=int8/128, fast_gather=codes, fast_reduce=int4/128, "
               "slow_reduce=int4/128, keep=codes"),
            Of("zero++"));
  EXPECT_EQ(Of("slow_reduce=int4/64/searched,fast_gather=fp32"),
            "bf16 fp32 bf16 int4/64/searched nothing bf16");
}

TEST(Recipe, RefusesWithOneLineThatNamesTheSetting) {
  for (const char* name :
       {"", "zero4", "qwz+qwz", "qwz+", "zero3+qwz", "slow_gather", "slow_gather=", "a=b",
        "slow_gather=int8/100", "slow_gather=codes", "keep=all", "keep=codes",
        "keep=values, fast_gather=codes", "keep=values, keep=values", "slow_gather=bf16,,"}) {
    try {
      MakeRecipe(name, DType::kBF16);
      ADD_FAILURE() << name;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("parallel.recipe"), std::string::npos)
          << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

TEST(Recipe, OneHostSparesNothing) {
  const Recipe plain = Adapt(MakeRecipe("zero3", DType::kBF16), 1, DType::kBF16);
  EXPECT_TRUE(plain.remarks.empty());
  const Recipe adapted = Adapt(MakeRecipe("zero++", DType::kBF16), 1, DType::kBF16);
  EXPECT_EQ(Summary(adapted), Of("zero3"));
  EXPECT_EQ(adapted.remarks.size(), 2u);
  EXPECT_EQ(Summary(Adapt(MakeRecipe("zero++", DType::kBF16), 2, DType::kBF16)), Of("zero++"));
}

}  // namespace
}  // namespace thinwire::zero
