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

TEST(ByName, RefusesWhatIsNone) {
  for (const char* name :
       {"", "int8", "int8/", "int8/x", "int8/128x", "int8/100", "int8/0", "int8/-128", "int4/8192",
        "int4/128/", "int4/128/find", "int5/128", "int8/128/searched", "fp32/128",
        "int4/99999999999999999999", "INT8/128"}) {
    try {
      ByName(name, "parallel.recipe, slow_gather");
      ADD_FAILURE() << name;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("parallel.recipe, slow_gather"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace thinwire::codec
