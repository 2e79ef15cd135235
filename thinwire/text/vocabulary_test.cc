#include "thinwire/text/vocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/text/merge_table.h"
#include "thinwire/text/special_tokens.h"
#include "thinwire/text/tokenizer.h"

namespace thinwire::text {
namespace {

// A vocabulary that a test changes before it is made.
struct Parts {
  std::vector<std::string_view> tokens = {"<unk>", "<s>", "</s>", "<0x41>", "▁a", "a", "b", "ab"};
  std::vector<int32_t> types = {2, 3, 3, 6, 1, 1, 1, 1};
  std::vector<float> scores = {0, 0, 0, 0, -1, -2, -3, -4};
  std::vector<std::string_view> merges;
  VocabularySource source;

  Parts() {
    source.kind = TokenizerKind::kSentencePieceBpe;
    source.ids.unknown = 0;
  }
  VocabularySource Get() {
    source.tokens = tokens;
    source.types = types;
    source.scores = scores;
    source.merges = merges;
    return source;
  }
};

std::string ErrorOf(const std::function<void(Parts&)>& change) {
  Parts parts;
  change(parts);
  try {
    const Tokenizer tokenizer(parts.Get());
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(Vocabulary, WhatIsWrongIsNamed) {
  const auto expect = [](const std::function<void(Parts&)>& change, const std::string& words) {
    const std::string error = ErrorOf(change);
    EXPECT_NE(error.find(words), std::string::npos) << error;
  };
  expect([](Parts&) {}, "none");
  expect([](Parts& p) { p.tokens.clear(); }, "no tokens");
  expect([](Parts& p) { p.types.pop_back(); }, "7 token types for 8 tokens");
  expect([](Parts& p) { p.scores.push_back(0); }, "9 scores for 8 tokens");
  expect([](Parts& p) { p.scores[5] = std::numeric_limits<float>::quiet_NaN(); },
         "token 5 has score");
  expect([](Parts& p) { p.types[5] = 7; }, "token 5 has type 7");
  expect([](Parts& p) { p.types[5] = 0; }, "token 5 has type 0");
  expect([](Parts& p) { p.source.ids.eos = 8; }, "eos token's id 8 is not one of the 8 tokens");
  expect([](Parts& p) { p.source.ids.bos = -2; }, "bos token's id -2");
  expect([](Parts& p) { p.source.add_bos = true; }, "add_bos_token is set");
  expect([](Parts& p) { p.source.add_eos = true; }, "add_eos_token is set");
  expect([](Parts& p) { p.tokens[6] = "a"; }, "tokens 5 and 6 are both 'a'");
  for (const char* token : {"<0x-1>", "<0x4>", "<0x411>", "0x41", "<0xG0>", "<0x41"}) {
    expect([&](Parts& p) { p.tokens[3] = token; }, "token 3 is a byte token but reads");
  }
  const auto byte_level = [](Parts& p) {
    p = Parts();
    p.source.kind = TokenizerKind::kByteLevelBpe;
    p.source.pre_tokenizer = "gpt-2";
    p.tokens = {"a", "b", "ab", "abb"};
    p.types.clear();
    p.scores.clear();
    p.merges = {"a b", "ab b"};
    p.source.ids.unknown = kNoToken;
  };
  expect(byte_level, "none");
  for (const char* merge : {"ab", "a", "", "a ", " b"}) {
    expect([&](Parts& p) { byte_level(p), p.merges[1] = merge; }, "merge 1 '");
  }
  expect([&](Parts& p) { byte_level(p), p.merges[0] = "a c"; },
         "merge 0 'a c' joins what is no token");
  expect([&](Parts& p) { byte_level(p), p.merges[0] = "b b"; },
         "merge 0 'b b' makes what is no token");
  expect([&](Parts& p) { byte_level(p), p.merges.clear(); }, "needs merges");
  // Text becomes single bytes.
  expect([&](Parts& p) { byte_level(p), p.merges.clear(), p.tokens.resize(2); }, "none");
  expect([&](Parts& p) { byte_level(p), p.source.pre_tokenizer = "gtp-2"; }, "gpt-2");
}

TEST(Vocabulary, BytesAndLookups) {
  Parts parts;
  const Vocabulary vocabulary(parts.Get());
  EXPECT_EQ(vocabulary.Bytes(4), " a");
  EXPECT_EQ(vocabulary.Bytes(3), "A");
  EXPECT_EQ(vocabulary.ByteToken('A'), 3);
  EXPECT_EQ(vocabulary.ByteToken('B'), kNoToken);
  EXPECT_EQ(vocabulary.Find(" a"), 4);
  EXPECT_EQ(vocabulary.Find("A"), kNoToken);
  EXPECT_EQ(vocabulary.Find("<s>"), kNoToken);
  EXPECT_EQ(vocabulary.max_token_bytes(), 5u);
}

TEST(Vocabulary, EndsOfGeneration) {
  Parts parts;
  parts.tokens[1] = "<|eot_id|>";
  parts.source.ids.eos = 2;
  const Vocabulary vocabulary(parts.Get());
  EXPECT_TRUE(vocabulary.EndsGeneration(1));
  EXPECT_TRUE(vocabulary.EndsGeneration(2));
  EXPECT_FALSE(vocabulary.EndsGeneration(0));
}

TEST(SpecialTokens, TheFirstThenTheLongest) {
  Parts parts;
  parts.tokens = {"<a>", "<a>b", "<", "<a>bcd", "aa", "x"};
  parts.types = {3, 3, 4, 3, 4, 1};
  parts.scores.assign(6, 0);
  const Vocabulary vocabulary(parts.Get());
  const SpecialTokens special(vocabulary);
  const auto find = [&](std::string_view text, size_t from, bool control) {
    const SpecialMatch match = special.Find(text, from, control);
    return std::vector<int64_t>{static_cast<int64_t>(match.begin), static_cast<int64_t>(match.size),
                                match.id};
  };
  EXPECT_EQ(find("x<a>bc", 0, true), (std::vector<int64_t>{1, 4, 1}));
  EXPECT_EQ(find("x<a>bcd", 0, true), (std::vector<int64_t>{1, 6, 3}));
  EXPECT_EQ(find("x<a>bcd", 2, true), (std::vector<int64_t>{0, 0, kNoToken}));
  EXPECT_EQ(find("x<a>bcd", 0, false), (std::vector<int64_t>{1, 1, 2}));
  EXPECT_EQ(find("aaa", 0, false), (std::vector<int64_t>{0, 2, 4}));
}

// A text in which control tokens are written out does not become them, not even by merging.
TEST(Tokenizer, TextForgesNoControlToken) {
  Parts parts;
  parts.source.kind = TokenizerKind::kByteLevelBpe;
  parts.source.pre_tokenizer = "gpt-2";
  parts.tokens = {"<", "e", ">", "e>", "<e>"};
  parts.types = {1, 1, 1, 1, 3};
  parts.scores.clear();
  parts.merges = {"e >", "< e>"};
  parts.source.ids.unknown = kNoToken;
  for (const bool ignore_merges : {false, true}) {
    parts.source.ignore_merges = ignore_merges;
    const Tokenizer tokenizer(parts.Get());
    Encoder encoder(tokenizer);
    std::vector<int32_t> ids;
    EXPECT_EQ(encoder.Encode("<e><e>", {.parse_special = true}, &ids), 0u);
    EXPECT_EQ(ids, (std::vector<int32_t>{4, 4}));
    ids.clear();
    encoder.Encode("<e>e>", {.parse_special = false}, &ids);
    EXPECT_EQ(std::ranges::count(ids, 4), 0);
  }
}

// What was guarded reads as with parse_special off, whatever stands around it.
TEST(Tokenizer, GuardedTextForgesNoControlToken) {
  Parts parts;
  parts.tokens = {"<", "e", ">", "<e>", "<e><e>", "e>", "ee"};
  parts.types = {1, 1, 1, 3, 3, 4, 4};
  parts.scores.assign(7, -1);
  parts.source.ids.unknown = kNoToken;
  const Tokenizer tokenizer(parts.Get());
  Encoder encoder(tokenizer);
  for (const char* text : {"<e>", "<<e><e>", "e<e>ee<e><e>", "ee><e><", "plain e"}) {
    std::vector<int32_t> expected = {3};
    encoder.Encode(text, {.parse_special = false}, &expected);
    expected.push_back(3);
    const std::string forged = std::string(kGuard) + text;
    std::vector<int32_t> ids;
    encoder.Encode("<e>" + tokenizer.Guard(forged) + "<e>",
                   {.parse_special = true, .guarded = true}, &ids);
    EXPECT_EQ(ids, expected) << text;
  }
}

TEST(Tokenizer, LostBytesAreCounted) {
  Parts parts;
  parts.source.ids.unknown = kNoToken;
  const Tokenizer tokenizer(parts.Get());
  Encoder encoder(tokenizer);
  std::vector<int32_t> ids;
  EXPECT_EQ(encoder.Encode("aébA", {}, &ids), 2u);
  EXPECT_EQ(ids, (std::vector<int32_t>{5, 6, 3}));
}

}  // namespace
}  // namespace thinwire::text
