#include "thinwire/planner/measured.h"

#include <gtest/gtest.h>

#include <cmath>

#include "thinwire/base/error.h"

namespace thinwire::planner {
namespace {

Machine Some() {
  Machine machine;
  machine.slow = {2.5e7, 1e-4, 3e-10};
  machine.idle_agreement_s = 1e-3;
  machine.busy_agreement_s = 5e-2;
  machine.cores_per_rank = 0.5;
  machine.codecs["bf16"] = {1e-10, 2e-10, 3e-10};
  machine.codecs["int4/128"] = {4e-10, 5e-10, 6e-10};
  machine.other = {7e-10, 8e-10, 9e-10};
  machine.copy_s_per_byte = 1e-10;
  machine.norm_s = 2e-10;
  machine.rotate_s = 3e-10;
  machine.difference_s = 4e-10;
  machine.optimizer_s = 3e-9;
  return machine;
}

nlohmann::ordered_json File() { return {{"machine", ToJson(Some())}, {"flops", 5e10}}; }

TEST(MeasuredTest, WhatWasWrittenIsRead) {
  const Measured read = ReadMeasured(File().dump(), "planner.json");
  EXPECT_EQ(ToJson(read.machine), ToJson(Some()));
  EXPECT_EQ(read.flops, 5e10);
  // A link without a limit is null in the file.
  EXPECT_TRUE(std::isinf(read.machine.fast.bytes_per_s));
  EXPECT_EQ(read.machine.SpeedOf("int4/128").sum_s, 6e-10);
  EXPECT_EQ(read.machine.SpeedOf("unheard/of").sum_s, 9e-10);
}

TEST(MeasuredTest, WhatMakesNoSenseIsNamed) {
  const auto error_of = [](const nlohmann::ordered_json& json) {
    try {
      ReadMeasured(json.dump(), "planner.json");
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  auto json = File();
  json["machine"]["slow"]["bytes_per_s"] = 0;
  EXPECT_NE(error_of(json).find("planner.json: machine.slow.bytes_per_s is missing"),
            std::string::npos)
      << error_of(json);
  json = File();
  json["machine"]["codecs"]["bf16"].erase("sum_s");
  EXPECT_NE(error_of(json).find("machine.codecs.bf16.sum_s"), std::string::npos);
  json = File();
  json["machine"]["optimizer_s"] = "fast";
  EXPECT_NE(error_of(json).find("machine.optimizer_s"), std::string::npos);
  // With these a step would have no end.
  json = File();
  json["machine"]["slow"]["core_s_per_byte"] = 1e300;
  EXPECT_NE(error_of(json).find("machine.slow.core_s_per_byte"), std::string::npos);
  json = File();
  json["machine"]["cores_per_rank"] = 1e-300;
  EXPECT_NE(error_of(json).find("machine.cores_per_rank"), std::string::npos);
  json = File();
  json.erase("flops");
  EXPECT_NE(error_of(json).find("flops"), std::string::npos);
  EXPECT_NE(error_of(nlohmann::ordered_json::array()), "");
  EXPECT_THROW(ReadMeasured("no json", "planner.json"), UsageError);
}

}  // namespace
}  // namespace thinwire::planner
