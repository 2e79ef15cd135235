#include "thinwire/speech/search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "thinwire/base/counted_malloc.h"
#include "thinwire/speech/encoder.h"
#include "thinwire/speech/repetition.h"
#include "thinwire/speech/testing.h"

namespace thinwire::speech {
namespace {

class SearchTest : public testing::Test {
 protected:
  SearchTest() : model_(TestSpec()), vocabulary_(model_.tokens(), "random") {
    const WhisperSpec spec = model_.spec();
    for (int64_t i = 0; i < spec.frames() * spec.mels; ++i) {
      encoder_.input()[i] = static_cast<float>(CounterRandom(9).Normal(static_cast<uint64_t>(i)));
    }
    decoder_.Hear(encoder_.Run());
  }

  // Logits after prompt and tokens, all computed anew.
  std::vector<float> LogitsAfter(const std::vector<int32_t>& tokens) {
    std::vector<int32_t> all = kPrompt;
    all.insert(all.end(), tokens.begin(), tokens.end());
    infer::KvCache& cache = decoder_.cache();
    for (int64_t i = 0; i < cache.sequences(); ++i) cache.Truncate(i, 0);
    const Segment segment = {.sequence = 0, .tokens = static_cast<int64_t>(all.size())};
    decoder_.Forward(all, {&segment, 1});
    const int64_t row = segment.tokens - 1;
    const std::span<float> logits = decoder_.Logits({&row, 1});
    return {logits.begin(), logits.end()};
  }

  struct Path {
    std::vector<int32_t> tokens;
    double score = 0;
    double mean() const { return score / std::max(1.0, static_cast<double>(tokens.size())); }
  };

  // The beam search of openai/whisper, with everything computed anew for every path.
  Path BestPath(size_t width) {
    std::vector<Path> live = {{}}, ended;
    for (int64_t step = 0; step < 8 && !live.empty() && ended.size() < width; ++step) {
      std::vector<Path> next;
      for (const Path& path : live) {
        std::vector<float> logits = LogitsAfter(path.tokens);
        const float total = TokenRules(vocabulary_).Apply({}, path.tokens, logits);
        for (size_t id = 0; id < logits.size(); ++id) {
          Path longer = path;
          longer.tokens.push_back(static_cast<int32_t>(id));
          longer.score += double{logits[id]} - total;
          if (std::isfinite(longer.score)) next.push_back(longer);
        }
      }
      std::ranges::sort(next, [](const Path& a, const Path& b) { return a.score > b.score; });
      live.clear();
      for (Path& path : next) {
        if (live.size() == width) break;
        if (path.tokens.back() == vocabulary_.end_of_text()) {
          path.tokens.pop_back();
          ended.push_back(path);
        } else {
          live.push_back(path);
        }
      }
    }
    if (ended.size() < width) ended.insert(ended.end(), live.begin(), live.end());
    return *std::ranges::max_element(ended, {}, [](const Path& path) { return path.mean(); });
  }

  const std::vector<int32_t> kPrompt = {47, 2, 12, 41};
  const RandomModel model_;
  const Vocabulary vocabulary_;
  ThreadTeam team_{2};
  const WhisperWeights weights_{model_, std::nullopt, team_};
  MemoryPlan plan_;
  Encoder encoder_{model_.spec(), weights_, team_, plan_};
  Decoder decoder_{model_.spec(), weights_, team_, Search::LimitsFor(5), plan_};
  const PlannedMemory memory_ = plan_.Take();
};

TEST_F(SearchTest, FindsWhatABeamFinds) {
  for (const int64_t width : {1, 2, 5}) {
    const Path best = BestPath(static_cast<size_t>(width));
    Search search(decoder_, vocabulary_, width);
    search.Begin(kPrompt, 3);
    for (int again = 0; again < 2; ++again) {
      const SearchResult found = search.Run(0, 0);
      EXPECT_EQ(std::vector<int32_t>(found.tokens.begin(), found.tokens.end()), best.tokens)
          << width;
      EXPECT_NEAR(found.mean_log_probability,
                  best.score / static_cast<double>(best.tokens.size() + 1), 1e-3);
    }
  }
}

TEST_F(SearchTest, NoSpeechAndLanguageComeFromTheStart) {
  Search search(decoder_, vocabulary_, 5);
  const double found = search.Begin(kPrompt, 3);
  std::vector<float> logits = LogitsAfter({});
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit});
  const double expected =
      std::exp(double{logits[static_cast<size_t>(vocabulary_.no_speech())]}) / sum;
  EXPECT_NEAR(found, expected, 1e-4);
  const int32_t language = logits[42] > logits[43] ? 42 : 43;
  EXPECT_EQ(search.Language(), language);
}

TEST_F(SearchTest, DrawsFollowTheSeedAndTheRules) {
  Search search(decoder_, vocabulary_, 5);
  search.Begin(kPrompt, 3);
  std::vector<std::vector<int32_t>> drawn;
  for (const uint64_t seed : {1u, 2u, 3u, 1u}) {
    const SearchResult found = search.Run(1, seed);
    drawn.emplace_back(found.tokens.begin(), found.tokens.end());
    EXPECT_TRUE(vocabulary_.IsTimestamp(drawn.back()[0]));
    for (const int32_t token : drawn.back()) EXPECT_TRUE(token != 3 && token != 7);
  }
  EXPECT_EQ(drawn[0], drawn[3]);
  EXPECT_TRUE(drawn[0] != drawn[1] || drawn[0] != drawn[2]);
  // Cold draws are the most probable tokens.
  const SearchResult cold = search.Run(1e-4, 5);
  const std::vector<int32_t> tokens(cold.tokens.begin(), cold.tokens.end());
  EXPECT_EQ(tokens, BestPath(1).tokens);
}

TEST_F(SearchTest, AllocatesNothing) {
  Search search(decoder_, vocabulary_, 5);
  Counter().count = 0;
  Counter().on = true;
  decoder_.Hear(encoder_.Run());
  search.Begin(kPrompt, 3);
  search.Run(0, 0);
  search.Run(0.6, 1);
  Counter().on = false;
  EXPECT_EQ(Counter().count, 0);
}

TEST(Repetition, CirclesAreSeen) {
  std::vector<int32_t> text;
  for (int32_t i = 0; i < 60; ++i) text.push_back(i * 7 % 61);
  EXPECT_FALSE(RepeatsItself(text));
  EXPECT_FALSE(RepeatsItself({}));
  std::vector<int32_t> few;
  for (int32_t i = 0; i < 33; ++i) few.push_back(i % 8);
  EXPECT_TRUE(RepeatsItself(few));
  std::vector<int32_t> circles = text;
  for (int32_t i = 0; i < 60; ++i) circles.push_back(100 + i % 20);
  EXPECT_TRUE(RepeatsItself(circles));
  circles.back() = 5;
  EXPECT_FALSE(RepeatsItself(circles));
}

}  // namespace
}  // namespace thinwire::speech
