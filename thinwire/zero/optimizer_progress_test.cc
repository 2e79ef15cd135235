#include "thinwire/zero/optimizer_progress.h"

#include <gtest/gtest.h>

#include "thinwire/base/error.h"

namespace thinwire::zero {
namespace {

TEST(OptimizerProgress, ComesBackAsItWas) {
  for (const double scale : {0x1p-20, 0.25, 1.0, 65536.0, 0x1p24}) {
    const OptimizerProgress saved{.steps = 12,
                                  .loss_scale = {.scale = scale, .good_steps = 7, .bad_steps = 2}};
    const nlohmann::json text = nlohmann::json::parse(ToJson(saved).dump());
    const OptimizerProgress loaded = ProgressOf(text, "here", "");
    EXPECT_EQ(loaded.steps, 12);
    EXPECT_EQ(loaded.loss_scale.scale, scale);
    EXPECT_EQ(loaded.loss_scale.good_steps, 7);
    EXPECT_EQ(loaded.loss_scale.bad_steps, 2);
  }
}

TEST(OptimizerProgress, RefusesWhatMakesNoSense) {
  const auto error_of = [](const nlohmann::json& saved) -> std::string {
    try {
      ProgressOf(saved, "out/step-3", "resume from another checkpoint");
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  const nlohmann::json good = ToJson({.steps = 1, .loss_scale = {}});
  EXPECT_EQ(error_of(good), "no error");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, nlohmann::json>>{{"steps", -1},
                                                           {"steps", "1"},
                                                           {"loss_scale", 0},
                                                           {"loss_scale", -2},
                                                           {"loss_scale", 0x1p25},
                                                           {"loss_scale", nullptr},
                                                           {"good_steps", 1.5},
                                                           {"bad_steps", -1}}) {
    nlohmann::json bad = good;
    bad[key] = value;
    const std::string words = StrCat("out/step-3: the manifest's optimizer.", key,
                                     " is missing or makes no sense; resume from another "
                                     "checkpoint");
    EXPECT_EQ(error_of(bad), words);
    bad.erase(key);
    EXPECT_EQ(error_of(bad), words);
  }
  EXPECT_NE(error_of(nullptr), "no error");
  EXPECT_NE(error_of(5), "no error");
}

}  // namespace
}  // namespace thinwire::zero
