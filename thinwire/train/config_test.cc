#include "thinwire/train/config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "thinwire/base/error.h"

namespace thinwire::train {
namespace {

constexpr std::string_view kMinimal = R"({"data": {"files": ["a.txt"]}})";

std::string ErrorOf(std::string_view json, std::vector<std::string> overrides = {}) {
  try {
    ParseConfig(json, "c.json", overrides);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ConfigTest, DefaultsAreFilledIn) {
  const Config config = ParseConfig(kMinimal, "c.json");
  EXPECT_EQ(config.model.kv_heads, config.model.heads);
  EXPECT_EQ(config.model.intermediate, 352);
  EXPECT_EQ(config.training.steps, 300);
  EXPECT_EQ(config.data.files, std::vector<std::string>{"a.txt"});
}

TEST(ConfigTest, EveryKindOfValueIsRead) {
  const Config config = ParseConfig(R"({"data": {"files": "a.txt"},
    "model": {"tie_head": true, "rope_theta": 500000},
    "training": {"learning_rate": 3e-4, "compute": "fp32"}, "parallel": {"checksum": true}})",
                                    "c.json");
  EXPECT_TRUE(config.model.tie_head);
  EXPECT_EQ(config.model.rope_theta, 500000);
  EXPECT_EQ(config.training.learning_rate, 3e-4);
  EXPECT_EQ(EngineOptionsOf(config).compute, DType::kF32);
  EXPECT_EQ(EngineOptionsOf(config).wire, DType::kF32);
  EXPECT_TRUE(EngineOptionsOf(config).checksum);
  EXPECT_FALSE(EngineOptionsOf(ParseConfig(kMinimal, "c.json")).checksum);
}

TEST(ConfigTest, WrittenConfigsAreReadBack) {
  const Config config = ParseConfig(kMinimal, "c.json");
  EXPECT_EQ(ToJson(ParseConfig(ToJson(config), "again")), ToJson(config));
}

TEST(ConfigTest, EveryFaultIsOneClearLine) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"({"trainin": {}})",
       "c.json: the config has an unknown section trainin; did you mean training?"},
      {R"({"training": {"step": 3}})",
       "c.json: unknown key training.step; did you mean training.steps?"},
      {R"({"training": {"hidden": 3}})",
       "c.json: unknown key training.hidden; did you mean model.hidden?"},
      {R"({"training": {"bananas": 3}})", "c.json: unknown key training.bananas"},
      {R"({"training": {"steps": "many"}})",
       "c.json: training.steps: expected an integer, found the string \"many\""},
      {R"({"training": {"steps": 3.5}})", "c.json: training.steps: expected an integer, found 3.5"},
      {R"({"training": {"steps": null}})",
       "c.json: training.steps: expected an integer, found null"},
      {R"({"training": {"steps": [3]}})",
       "c.json: training.steps: expected an integer, found a list"},
      {R"({"training": {"steps": {"x": 3}}})",
       "c.json: training.steps: expected an integer, found an object"},
      {R"({"training": {"steps": -1}})", "c.json: training.steps: expected 1 to 1e+12, found -1"},
      {R"({"training": {"steps": 99999999999999999999999}})",
       "c.json: training.steps = 99999999999999999999999 does not fit 64 bits"},
      {R"({"training": {"steps": 18446744073709551615}})",
       "c.json: training.steps = 18446744073709551615 does not fit 64 bits"},
      {R"({"training": {"learning_rate": true}})",
       "c.json: training.learning_rate: expected a number, found true"},
      {R"({"training": {"learning_rate": -1e-3}})",
       "c.json: training.learning_rate: expected 1.17549e-38 to 10, found -1e-3"},
      {R"({"training": {"activation_checkpointing": 1}})",
       "c.json: training.activation_checkpointing: expected a boolean, found 1"},
      {R"({"training": {"compute": "bf61"}})",
       "c.json: training.compute: expected one of bf16, fp32, fp16, found \"bf61\""},
      {R"({"training": {"steps": 3, "steps": 4}})", "c.json: training.steps is there twice"},
      {R"({"training": {}, "training": {}})", "c.json: training is there twice"},
      {R"({"training": 3})", "c.json: training: expected an object, found 3"},
      {R"([1])", "c.json: the config: expected an object, found a list"},
      {R"({"data": {"files": ["a", ["b"]]}})",
       "c.json: data.files: expected a list of strings, found a list"},
      {R"({"data": {"files": [1]}})", "c.json: data.files: expected a list of strings, found 1"},
      {R"({"data": {}})",
       "c.json: data.files is missing: name text files, directories or globs, e.g. [\"corpus/\"]"},
      {R"({"data": {"files": "a"}, "model": {"heads": 3}})",
       "c.json: model.heads = 3 does not divide model.hidden = 128"},
      {R"({"data": {"files": "a"}, "model": {"kv_heads": 3}})",
       "c.json: model.kv_heads = 3 does not divide model.heads = 4"},
      {R"({"data": {"files": "a"}, "model": {"hidden": 12}})",
       "c.json: model.hidden / model.heads = 3 must be even for rotary embedding; change "
       "model.heads"},
      {R"({"data": {"files": "a"}, "training": {"steps": 10}})",
       "c.json: training.warmup_steps = 20 exceeds training.steps = 10"},
      {R"({"data": {"files": "a"}, "parallel": {"recipe": "ZeRO++"}})",
       "c.json: parallel.recipe = \"ZeRO++\" is not known; did you mean zero++?"},
      {R"({"data": {"files": "a"}, "parallel": {"recipe": "slow_gather=int8/100"}})",
       "c.json: parallel.recipe, slow_gather = \"int8/100\": the block is 100: choose a multiple "
       "of "
       "32 from 32 to 4096"},
      {R"({"data": {"files": "a"}, "parallel": {"recipe": "auto", "loss_budget": -1}})",
       "c.json: parallel.loss_budget: expected 0 to 100, found -1"},
      {R"({"data": {"files": "a"}, "parallel": {"recipe": "auto", "review_steps": 0.5}})",
       "c.json: parallel.review_steps: expected an integer, found 0.5"},
      {R"({"data": {"files": "a"}, "parallel": {"checksum": "yes"}})",
       "c.json: parallel.checksum: expected a boolean, found the string \"yes\""},
  };
  for (const auto& [json, want] : kCases) EXPECT_EQ(ErrorOf(json), want);
}

TEST(ConfigTest, TextThatIsNoJsonNamesThePlace) {
  for (const char* json : {"{\"training\": {\"learning_rate\": NaN}}", "{", "", "{} {}",
                           "{\"training\": {\"learning_rate\": 1e999}}"}) {
    const std::string error = ErrorOf(json);
    EXPECT_TRUE(error.starts_with("c.json: not JSON: ")) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

TEST(ConfigTest, OverridesComeLastAndAreCheckedAlike) {
  const std::vector<std::string> overrides = {"training.steps=77", "training.compute=fp32",
                                              "data.files=[\"b\", \"c\"]",
                                              "training.learning_rate=2e-3"};
  const Config config = ParseConfig(kMinimal, "c.json", overrides);
  EXPECT_EQ(config.training.steps, 77);
  EXPECT_EQ(config.training.compute, "fp32");
  EXPECT_EQ(config.data.files, (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(config.training.learning_rate, 2e-3);
  EXPECT_EQ(ErrorOf(kMinimal, {"training.stepz=1"}),
            "--set training.stepz=1: unknown key training.stepz; did you mean training.steps?");
  EXPECT_EQ(ErrorOf(kMinimal, {"training.steps=x"}),
            "--set training.steps=x: training.steps: expected an integer, found the string \"x\"");
  EXPECT_EQ(ErrorOf(kMinimal, {"steps=4"}),
            "--set steps=4: expected section.key=value, e.g. training.steps=100");
}

TEST(ConfigTest, TheHashIsOfWhatRanksShare) {
  const Config a = ParseConfig(kMinimal, "a");
  Config b = a;
  b.output.directory = "elsewhere";
  b.parallel.interface = "eth7";
  EXPECT_EQ(ConfigHash(a), ConfigHash(b));
  b.training.learning_rate *= 2;
  EXPECT_NE(ConfigHash(a), ConfigHash(b));
  for (const auto& [path, value] : SharedKeys(b)) {
    if (path == "training.learning_rate") {
      EXPECT_EQ(value, "0.002");
    }
  }
}

TEST(ConfigTest, TheDocumentationHasTheKeysOfTheParser) {
  std::ifstream file(THINWIRE_SOURCE_DIR "/docs/config.md");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(ConfigTable()), std::string::npos)
      << "docs/config.md wants this table:\n"
      << ConfigTable();
}

}  // namespace
}  // namespace thinwire::train
