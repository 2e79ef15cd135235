#include "thinwire/codec/by_name.h"

#include <gtest/gtest.h>

#include "thinwire/base/error.h"

namespace thinwire::codec {
namespace {

TEST(ByName, EveryCodecHasTheNameItIsFoundBy) {
  for (const char* name : {"fp32", "bf16", "fp16", "int8/32", "int8/128", "int4/64", "int4/4096",
                           "int4/128/searched"}) {
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
  for (const char* name : {"", "int5/128", "INT8/128", "fp32/128", "int8/128/", "int4/128/find",
                           "int4/128/searched/", "int8/128/searched/more", "codes"}) {
    EXPECT_EQ(ErrorOf(name), StrCat("parallel.recipe, slow_gather = \"", name,
                                    "\" is no codec: take fp32, bf16, fp16, int8/BLOCK, int4/BLOCK "
                                    "or int4/BLOCK/searched, with a block like 128"));
  }
  EXPECT_EQ(ErrorOf("int8/128/searched"),
            "parallel.recipe, slow_gather = \"int8/128/searched\": int8 gains nothing by a search: "
            "take int8/128");
}

TEST(ByName, RefusesBlocksThatMakeNoSense) {
  const std::pair<const char*, const char*> kCases[] = {
      {"int8/100", "100: choose a multiple of 32 from 32 to 4096"},
      {"int8/-128", "-128: choose a multiple of 32 from 32 to 4096"},
      {"int4/-32", "-32: choose a multiple of 32 from 32 to 4096"},
      {"int4/8192/searched", "8192: choose a multiple of 32 from 32 to 4096"},
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
