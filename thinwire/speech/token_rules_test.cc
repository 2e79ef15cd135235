#include "thinwire/speech/token_rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "thinwire/speech/segments.h"
#include "thinwire/speech/testing.h"

namespace thinwire::speech {
namespace {

const Vocabulary& Words() {
  static const Vocabulary vocabulary(TestTokens(), "test");
  return vocabulary;
}
int32_t Time(double seconds) {
  return Words().first_timestamp() + static_cast<int32_t>(std::lround(seconds * 50));
}

// Which tokens may follow, where text is as probable as can be.
std::vector<bool> Allowed(const std::vector<int32_t>& tokens, float text = 20) {
  std::vector<float> logits(static_cast<size_t>(Words().size()), 1.0f);
  std::fill_n(logits.begin(), kTestText + 1, text);  // the end of the text, too
  const float total = TokenRules(Words()).Apply({}, tokens, logits);
  double sum = 0;
  std::vector<bool> allowed;
  for (const float logit : logits) {
    allowed.push_back(std::isfinite(logit));
    sum += std::exp(double{logit});
  }
  EXPECT_NEAR(total, std::log(sum), 1e-4);
  return allowed;
}

std::set<int32_t> TimesOf(const std::vector<bool>& allowed) {
  std::set<int32_t> times;
  for (size_t i = static_cast<size_t>(Words().first_timestamp()); i < allowed.size(); ++i) {
    if (allowed[i]) times.insert(static_cast<int32_t>(i));
  }
  return times;
}

TEST(TokenRules, ATimeWithinTheFirstSecondComesFirst) {
  const std::vector<bool> allowed = Allowed({});
  for (size_t i = 0; i < allowed.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    EXPECT_EQ(allowed[i], id >= Time(0) && id <= Time(1)) << i;
  }
}

TEST(TokenRules, TimesComeInPairsAndNeverGoBack) {
  // After the first time: text, but not the suppressed ones.
  std::vector<bool> allowed = Allowed({Time(0.5)});
  EXPECT_TRUE(TimesOf(allowed).empty());
  EXPECT_TRUE(allowed[0] && allowed[1]);
  EXPECT_FALSE(allowed[3] || allowed[5] || allowed[7]);
  // Within a segment: text, or a later time.
  allowed = Allowed({Time(0.5), 1, 2});
  EXPECT_EQ(*TimesOf(allowed).begin(), Time(0.52));
  EXPECT_TRUE(allowed[5]);
  EXPECT_FALSE(allowed[3]);
  // At the end of one: the next begins no earlier, or the text ends.
  allowed = Allowed({Time(0.5), 1, 2, Time(3)});
  EXPECT_EQ(*TimesOf(allowed).begin(), Time(3));
  EXPECT_FALSE(allowed[1]);
  EXPECT_TRUE(allowed[static_cast<size_t>(Words().end_of_text())]);
  // After both: text.
  EXPECT_TRUE(TimesOf(Allowed({Time(0.5), 1, Time(3), Time(3)})).empty());
  // What is no text never comes.
  for (const int32_t id : {Words().start(), Words().no_speech(), Words().no_timestamps(),
                           Words().previous(), Words().translate()}) {
    EXPECT_FALSE(allowed[static_cast<size_t>(id)]);
  }
}

TEST(TokenRules, TimesThatAreMoreProbableTogetherCome) {
  // 1500 times at e^1 against one text at most: ln 1500 + 1 = 8.3.
  EXPECT_TRUE(Allowed({Time(0), 1}, 9)[2]);
  EXPECT_FALSE(Allowed({Time(0), 1}, 8)[2]);
}

TEST(Segments, CompleteOnesAreCutAndTheRestIsHeardAgain) {
  const std::vector<int32_t> tokens = {Time(0), 1,       2,       Time(2.5), Time(3),
                                       4,       Time(6), Time(6), 8,         9};
  const Split split = SplitAtTimes(Words(), tokens, 3000);
  ASSERT_EQ(split.segments.size(), 2u);
  EXPECT_DOUBLE_EQ(split.segments[0].begin, 0);
  EXPECT_DOUBLE_EQ(split.segments[0].end, 2.5);
  EXPECT_DOUBLE_EQ(split.segments[1].begin, 3);
  EXPECT_DOUBLE_EQ(split.segments[1].end, 6);
  EXPECT_EQ(TextOf(Words(), split.segments[0].tokens), "ab ac");
  EXPECT_EQ(split.frames, 600);
}

TEST(Segments, OneThatEndsTheWindow) {
  Split split =
      SplitAtTimes(Words(), std::vector<int32_t>{Time(0), 1, Time(2), Time(2), 4, Time(9)}, 1000);
  ASSERT_EQ(split.segments.size(), 2u);
  EXPECT_DOUBLE_EQ(split.segments[1].end, 9);
  EXPECT_EQ(split.frames, 1000);
  split = SplitAtTimes(Words(), std::vector<int32_t>{Time(1), 1, Time(2)}, 1000);
  ASSERT_EQ(split.segments.size(), 1u);
  EXPECT_DOUBLE_EQ(split.segments[0].begin, 1);
  EXPECT_DOUBLE_EQ(split.segments[0].end, 2);
  EXPECT_EQ(split.frames, 1000);
  // Without an end it lasts as long as the sound.
  split = SplitAtTimes(Words(), std::vector<int32_t>{Time(0), 1}, 777);
  EXPECT_DOUBLE_EQ(split.segments[0].end, 7.77);
  EXPECT_EQ(SplitAtTimes(Words(), {}, 50).frames, 50);
}

TEST(Segments, AWindowAlwaysMovesOn) {
  const std::vector<int32_t> tokens = {Time(0), 1, Time(0.02), Time(0.02), 4};
  EXPECT_EQ(SplitAtTimes(Words(), tokens, 3000).frames, 50);
  EXPECT_EQ(SplitAtTimes(Words(), tokens, 7).frames, 7);
}

TEST(Segments, TextIsWellFormed) {
  WhisperTokens tokens = TestTokens();
  tokens.tokens[0] = "\xc4\xa0\xc3\x83";  // a space and the byte C3, half a character
  tokens.tokens[1] = "\xc2\xa9";          // the byte A9, its other half
  const Vocabulary vocabulary(tokens, "test");
  EXPECT_EQ(TextOf(vocabulary, std::vector<int32_t>{0, 1}), "\xc3\xa9");
  EXPECT_EQ(TextOf(vocabulary, std::vector<int32_t>{0}), "\xef\xbf\xbd");
  EXPECT_EQ(TextOf(vocabulary, std::vector<int32_t>{1, Time(0) /* no text */}), "\xef\xbf\xbd");
}

}  // namespace
}  // namespace thinwire::speech
