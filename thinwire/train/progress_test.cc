#include "thinwire/train/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

namespace thinwire::train {
namespace {

// `slow_bytes` are those of each step, the last one of all that follow.
std::string Shown(bool terminal, double seconds_per_step, std::vector<double> slow_bytes = {3}) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  Progress progress(out, {.steps = 6, .terminal = terminal});
  for (int64_t step = 1; step <= 6; ++step) {
    progress.Step({.step = step,
                   .loss = 2.5,
                   .seconds = seconds_per_step,
                   .tokens_per_s = 100,
                   .slow_bytes_per_param =
                       slow_bytes[std::min(slow_bytes.size(), static_cast<size_t>(step)) - 1]});
  }
  progress.Say("done");
  std::fclose(out);
  const std::string shown(text, size);
  std::free(text);  // NOLINT: open_memstream's
  return shown;
}

TEST(ProgressTest, ALogGetsALineNowAndThen) {
  EXPECT_EQ(Shown(false, 4),
            "step 1/6  loss 2.5000  100 tokens/s  4.000 s/step  3.00 bytes/param on the slow link  "
            "0:20 left\n"
            "step 4/6  loss 2.5000  100 tokens/s  4.000 s/step  3.00 bytes/param on the slow link  "
            "0:08 left\n"
            "step 6/6  loss 2.5000  100 tokens/s  4.000 s/step  3.00 bytes/param on the slow link  "
            "0:00 left\ndone\n");
}

// Pushes that straddle steps do not show.
TEST(ProgressTest, BytesAreTheMeanOfTheRun) {
  const std::string shown = Shown(false, 4, {0.25, 1, 1, 0.95});
  EXPECT_NE(shown.find("step 1/6  loss 2.5000  100 tokens/s  4.000 s/step  0.25 bytes/param"),
            std::string::npos)
      << shown;
  EXPECT_NE(shown.find("step 4/6  loss 2.5000  100 tokens/s  4.000 s/step  0.80 bytes/param"),
            std::string::npos)
      << shown;
}

TEST(ProgressTest, ATerminalGetsOneLineThatRenewsItself) {
  const std::string shown = Shown(true, 1);
  EXPECT_EQ(std::ranges::count(shown, '\r'), 6);
  EXPECT_EQ(std::ranges::count(shown, '\n'), 2);
}

TEST(ProgressTest, Durations) {
  EXPECT_EQ(Progress::Duration(0), "0:00");
  EXPECT_EQ(Progress::Duration(125), "2:05");
  EXPECT_EQ(Progress::Duration(3723), "1:02:03");
}

TEST(MetricsTest, ResumingDropsTheStepsThatComeAgain) {
  const std::string path = testing::TempDir() + "/metrics_test.jsonl";
  {
    MetricsLog log(path, 0);
    for (int64_t step = 1; step <= 4; ++step) log.Step({.step = step, .loss = 1});
    log.Evaluation(4, 2);
  }
  {
    MetricsLog log(path, 2);
    log.Step({.step = 3, .loss = std::numeric_limits<double>::quiet_NaN()});
  }
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(std::ranges::count(text.str(), '\n'), 3);
  EXPECT_NE(text.str().find("{\"step\":3,\"loss\":null,"), std::string::npos);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace thinwire::train
