#include "thinwire/zero/recipe.h"

#include <gtest/gtest.h>

#include "thinwire/base/error.h"

namespace thinwire::zero {
namespace {

std::string Summary(const Recipe& recipe) {
  const auto name = [](const CodecPtr& codec) {
    return codec == nullptr ? std::string("codes") : std::string(codec->name());
  };
  const char* kept[] = {"nothing", "values", "codes", "reference"};
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
  EXPECT_EQ(Of("delta4"), "int4/2048/max0.75 bf16 int8/128 int4/128 reference bf16");
  EXPECT_EQ(Of("delta-ternary"), "ternary/128 bf16 int8/128 int4/128 reference bf16");
  EXPECT_EQ(Of("ternary"), "ternary/128 bf16 int8/128 ternary/128/rms1.22 reference bf16");
  for (const char* name : {"delta4", "delta-ternary", "ternary"}) {
    EXPECT_EQ(MakeRecipe(name, DType::kBF16).rotation, 128);
    EXPECT_EQ(MakeRecipe(name, DType::kBF16).feedback, nullptr);
  }
  for (const std::string& name : RecipeNames()) EXPECT_EQ(MakeRecipe(name, DType::kF16).name, name);
}

TEST(Recipe, HopByHop) {
  EXPECT_EQ(Of("keep=values"), Of("hpz"));
  EXPECT_EQ(Of("slow_gather=int8/128, fast_gather=codes, fast_reduce=int4/128, "
               "slow_reduce=int4/128, keep=codes"),
            Of("zero++"));
  EXPECT_EQ(Of("slow_gather=int4/2048/max0.75, fast_reduce=rot128+int8/128, "
               "slow_reduce=rot128+int4/128, keep=reference, feedback=nothing"),
            Of("delta4"));
  EXPECT_EQ(MakeRecipe("slow_reduce=rot32+ternary/128, feedback=int8/128", DType::kBF16).name,
            "slow_reduce=rot32+ternary/128, feedback=int8/128");
  EXPECT_EQ(Of("slow_reduce=int4/64/searched,fast_gather=fp32"),
            "bf16 fp32 bf16 int4/64/searched nothing bf16");
}

TEST(Recipe, CodedIsForTheSlowHops) {
  EXPECT_EQ(Of("zero+++coded"), "int8/128/coded codes int4/128 int4/128/coded codes bf16");
  EXPECT_EQ(Of(" zero++ + coded"), Of("zero+++coded"));
  EXPECT_EQ(Of("qgz+coded"), "bf16 bf16 int4/128 int4/128/coded nothing bf16");
  const Recipe ternary = MakeRecipe("ternary+coded", DType::kBF16);
  EXPECT_EQ(ternary.slow_gather->name(), "ternary/128/coded");
  EXPECT_EQ(ternary.fast_reduce->name(), "int8/128");
  EXPECT_EQ(ternary.slow_reduce->name(), "ternary/128/rms1.22/coded");
  EXPECT_EQ(ternary.rotation, 128);
  for (const std::string& name : RecipeNames()) {
    if (name == "zero3" || name == "hpz") continue;
    EXPECT_EQ(MakeRecipe(name + "+coded", DType::kF16).name, name + "+coded");
  }
  EXPECT_EQ(Of("slow_reduce=rot32+int4/128/coded, fast_gather=int8/32/coded"),
            "bf16 int8/32/coded bf16 int4/128/coded nothing bf16");
}

TEST(Recipe, TheNameIsThatOfTheCodecs) {
  const std::pair<const char*, const char*> kCases[] = {
      {"qwz+hpz+qgz", "zero++"},
      {"qgz + hpz+qwz", "zero++"},
      {"zero++ ", "zero++"},
      {"qgz + qwz+hpz + coded", "zero+++coded"},
      {"slow_reduce=int4/128/coded, fast_reduce=int4/128", "qgz+coded"},
      {"\t zero3", "zero3"},
      {"hpz + qwz", "qwz+hpz"},
      {"keep=values", "hpz"},
      {"slow_gather=bf16", "zero3"},
      {"keep=codes,slow_reduce=int4/128, fast_reduce=int4/128,fast_gather=codes,"
       "slow_gather=int8/128",
       "zero++"},
      {" slow_reduce = int4/64 ,fast_gather=bf16,slow_gather=int8/32",
       "slow_gather=int8/32, slow_reduce=int4/64"},
  };
  for (const auto& [spelled, name] : kCases) {
    EXPECT_EQ(MakeRecipe(spelled, DType::kBF16).name, name) << spelled;
  }
}

TEST(Recipe, RefusesWithOneLineThatSaysWhatToChange) {
  const std::string all =
      "choose one of zero3, qwz, hpz, qgz, qwz+hpz, qwz+qgz, hpz+qgz, zero++, delta4, "
      "delta-ternary, ternary, or name the codecs "
      "of "
      "the hops (docs/recipes.md)";
  const std::pair<const char*, std::string> kCases[] = {
      {"", "is not known: " + all},
      {"bananas", "is not known: " + all},
      {"zero4", "is not known; did you mean zero3?"},
      {"zero+", "is not known; did you mean zero++?"},
      {"ZeRO++", "is not known; did you mean zero++?"},
      {"hzp", "is not known; did you mean hpz?"},
      {"qwz+", "is not known; did you mean qwz?"},
      {"qwz+hzp", "is not known; did you mean qwz+hpz?"},
      {"qwz+qwz", "names qwz twice: leave one out"},
      {"hpz+coded",
       "has nothing to entropy-code: its slow hops send numbers as they are, so leave out +coded"},
      {"zero+++coded+coded", "says +coded twice: leave one out"},
      {"slow_gathr=bf16", "names \"slow_gathr\", which is no hop; did you mean slow_gather?"},
      {"a=b",
       "names \"a\", which is no hop: choose one of slow_gather, fast_gather, fast_reduce, "
       "slow_reduce, keep, feedback"},
      {"slow_gather=bf16,,", "has \"\" where hop=codec or keep=... was expected"},
      {"zero++, keep=codes", "has \"zero++\" where hop=codec or keep=... was expected"},
      {"slow_gather=codes",
       "has codes on slow_gather, but only fast_gather can pass codes on: name a codec there, like "
       "int8/128"},
      {"slow_reduce=codes",
       "has codes on slow_reduce, but only fast_gather can pass codes on: name a codec there, like "
       "int8/128"},
      {"keep=all", "keeps \"all\": choose nothing, values, codes or reference"},
      {"keep=codes", "keeps codes but does not pass them on: set fast_gather=codes"},
      {"slow_gather=int8/128, fast_gather=int4/64, keep=codes",
       "keeps codes but does not pass them on: set fast_gather=codes"},
      {"keep=values, fast_gather=codes",
       "keeps values, so there are no codes to pass on: set keep=codes"},
      {"keep=reference",
       "keeps a reference for differences in bf16, which gain nothing: set slow_gather to a code "
       "like int4/2048, or keep=values"},
      {"slow_gather=int4/128, fast_gather=codes, keep=reference",
       "keeps a reference, so the slow gather brings differences, which are of no use to the other "
       "ranks of a host: set fast_gather to a codec"},
      {"fast_reduce=rot32+int8/128, slow_reduce=int4/128",
       "rotates one reduce, but not slow_reduce=int4/128: gradients stay rotated between them, so "
       "write rot32+int4/128"},
      {"slow_reduce=rot32+int4/128, fast_reduce=rot128+int8/128",
       "rotates by 32 on one reduce and by 128 on the other: gradients stay rotated between them, "
       "so choose one"},
      {"slow_reduce=rot32+bf16",
       "rotates bf16 on slow_reduce, which gains nothing: leave out rot32+"},
      {"slow_reduce=ternary/128, feedback=int4/128",
       "has feedback in int4/128: choose nothing or int8 like int8/128"},
      {"slow_reduce=ternary/128, feedback=int8/128/coded",
       "has feedback in int8/128/coded: choose nothing or int8 like int8/128"},
      {"feedback=int8/128",
       "has feedback, but its slow reduce in bf16 owes nothing: leave out feedback"},
      {"keep=values, keep=values", "names keep twice: leave one out"},
  };
  const auto error_of = [](std::string_view name) -> std::string {
    try {
      MakeRecipe(name, DType::kBF16);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  for (const auto& [name, words] : kCases) {
    EXPECT_EQ(error_of(name), StrCat("parallel.recipe = \"", name, "\" ", words));
  }
  EXPECT_EQ(
      error_of("slow_gather=int8/100"),
      "parallel.recipe, slow_gather = \"int8/100\": the block is 100: choose a multiple of 32 "
      "from 32 to 4096");
  EXPECT_EQ(error_of("slow_gather="),
            "parallel.recipe, slow_gather = \"\" is no codec: take fp32, bf16, fp16, int8/BLOCK, "
            "int4/BLOCK, int3/BLOCK or ternary/BLOCK, with a block like 128");
}

TEST(Recipe, AnErrorNamesTheSetting) {
  try {
    MakeRecipe("slow_gather=int8/100", DType::kBF16, "thinwire.recipe");
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_TRUE(std::string_view(error.what()).starts_with("thinwire.recipe, slow_gather = "));
  }
}

TEST(Recipe, OneHostSparesNothing) {
  const Recipe plain = Adapt(MakeRecipe("zero3", DType::kBF16), 1, DType::kBF16);
  EXPECT_TRUE(plain.remarks.empty());
  const Recipe adapted = Adapt(MakeRecipe("zero++", DType::kBF16), 1, DType::kBF16);
  EXPECT_EQ(Summary(adapted), Of("zero3"));
  EXPECT_EQ(adapted.remarks.size(), 2u);
  EXPECT_EQ(Summary(Adapt(MakeRecipe("zero++", DType::kBF16), 2, DType::kBF16)), Of("zero++"));
  // A type that is asked for is no code.
  const Recipe wider =
      Adapt(MakeRecipe("fast_reduce=fp32, slow_reduce=fp32", DType::kBF16), 1, DType::kBF16);
  EXPECT_EQ(wider.fast_reduce->name(), "fp32");
  EXPECT_EQ(wider.fast_gather->name(), "bf16");
  EXPECT_TRUE(wider.remarks.empty());
}

}  // namespace
}  // namespace thinwire::zero
