#include "thinwire/codec/by_name.h"

#include <gtest/gtest.h>

#include "thinwire/base/error.h"

namespace thinwire::codec {
namespace {

TEST(ByName, EveryCodecHasTheNameItIsFoundBy) {
  for (const char* name : {"fp32",
                           "bf16",
                           "fp16",
                           "int8/32",
                           "int8/128",
                           "int4/64",
                           "int4/4096",
                           "int4/128/searched",
                           "int3/128",
                           "ternary/128",
                           "int4/2048/max0.95",
                           "int3/64/rms2",
                           "ternary/128/rms1.22",
                           "ternary/2048/max0.4",
                           "rot32+int4/128",
                           "rot128+int3/128",
                           "rot32+ternary/96/rms1.2",
                           "rot128+int8/256",
                           "rot32+int4/2048/searched",
                           "int8/128/coded",
                           "int4/64/searched/coded",
                           "rot32+ternary/128/rms1.22/coded"}) {
    EXPECT_EQ(ByName(name, "hop")->name(), name);
  }
}

std::string ErrorOf(const char* name) {
  try {
    ByName(name, "parallel.recipe, slow_gather");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ByName, RefusesWhatIsNone) {
  for (const char* name : {"",
                           "int5/128",
                           "INT8/128",
                           "fp32/128",
                           "int8/128/",
                           "int4/128/find",
                           "int4/128/searched/",
                           "int8/128/searched/more",
                           "codes",
                           "rot64+int4/128",
                           "rot32int4/128",
                           "rot32+",
                           "rot32+bf16",
                           "rot32+rot32+int4/128",
                           "int3/128/searched",
                           "ternary/128/",
                           "int8/128/max0.9",
                           "int4/128/0.9",
                           "bf16/coded",
                           "int4/128/coded/searched",
                           "int4/128/coded/coded",
                           "coded"}) {
    EXPECT_EQ(ErrorOf(name),
              StrCat("parallel.recipe, slow_gather = \"", name,
                     "\" is no codec: take fp32, bf16, fp16, int8/BLOCK, int4/BLOCK, "
                     "int3/BLOCK or ternary/BLOCK, with a block like 128"));
  }
  EXPECT_EQ(ErrorOf("int8/128/searched"),
            "parallel.recipe, slow_gather = \"int8/128/searched\": int8 gains nothing by a search: "
            "take int8/128");
}

TEST(ByName, OneFormatHasOneName) {
  for (const auto& [name, words] :
       {std::pair{"int4/128/max0.950", "write it as int4/128/max0.95"},
        {"int4/128/max1.0", "write it as int4/128/max1"},
        {"int4/128/rms0.333", "write it as int4/128/rms0.33"},
        {"int3/128/max0.85", "write it as int3/128"},
        {"rot32+ternary/128/max0.5", "write it as rot32+ternary/128"}}) {
    EXPECT_EQ(ErrorOf(name), StrCat("parallel.recipe, slow_gather = \"", name, "\": ", words));
  }
}

TEST(ByName, RefusesFactorsThatMakeNoSense) {
  for (const std::string factor : {"", "0", "-1", "0.001", "8.01", "1e9", "nan", "inf", "1x"}) {
    for (const char* basis : {"max", "rms"}) {
      const std::string name = StrCat("ternary/128/", basis, factor);
      EXPECT_EQ(ErrorOf(name.c_str()), StrCat("parallel.recipe, slow_gather = \"", name,
                                              "\": the factor of the scale is \"", factor,
                                              "\": choose a number from 0.01 to 8"));
    }
  }
}

TEST(ByName, RefusesBlocksThatMakeNoSense) {
  const std::pair<const char*, const char*> kCases[] = {
      {"int8/100", "100: choose a multiple of 32 from 32 to 4096"},
      {"int8/-128", "-128: choose a multiple of 32 from 32 to 4096"},
      {"int4/-32", "-32: choose a multiple of 32 from 32 to 4096"},
      {"int4/8192/searched", "8192: choose a multiple of 32 from 32 to 4096"},
      {"ternary/33", "33: choose a multiple of 32 from 32 to 4096"},
      {"rot128+int4/96", "96: choose a multiple of 128, which are rotated together"},
      {"rot32+int3", "missing: choose a multiple of 32 from 32 to 4096, e.g. int3/128"},
      {"int8", "missing: choose a multiple of 32 from 32 to 4096, e.g. int8/128"},
      {"int4/0", "\"0\": choose a multiple of 32 from 32 to 4096, e.g. int4/128"},
      {"int8/0128", "\"0128\": choose a multiple of 32 from 32 to 4096, e.g. int8/128"},
      {"int8/abc", "\"abc\": choose a multiple of 32 from 32 to 4096, e.g. int8/128"},
      {"int8/128x", "\"128x\": choose a multiple of 32 from 32 to 4096, e.g. int8/128"},
      {"int4/99999999999999999999",
       "\"99999999999999999999\": choose a multiple of 32 from 32 to 4096, e.g. int4/128"},
  };
  for (const auto& [name, words] : kCases) {
    EXPECT_EQ(ErrorOf(name),
              StrCat("parallel.recipe, slow_gather = \"", name, "\": the block is ", words));
  }
}

}  // namespace
}  // namespace thinwire::codec
