#include "thinwire/text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/text/pre_tokenizer_names.h"
#include "thinwire/text/testing.h"

namespace thinwire::text {
namespace {

using Words = std::vector<std::string>;

Words Split(std::span<const std::string_view> expressions, std::string_view text) {
  const PreTokenizer pre_tokenizer(expressions);
  RegexMemory memory;
  Words words;
  pre_tokenizer.Split(text, &memory, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

TEST(PreTokenizer, EveryExpressionSplitsAsInHuggingFace) {
  const auto json = ReadJson(THINWIRE_TEXT_TESTDATA "/pre_tokenizers.json");
  for (const auto& [name, splits] : json.at("rules").items()) {
    const PreTokenizer pre_tokenizer(FindPreTokenizer(name).expressions);
    RegexMemory memory;
    for (size_t i = 0; i < splits.size(); ++i) {
      const std::string text = json.at("texts").at(i);
      std::vector<size_t> bytes;
      pre_tokenizer.Split(text, &memory,
                          [&](std::string_view word) { bytes.push_back(word.size()); });
      EXPECT_EQ(bytes, splits[i].get<std::vector<size_t>>()) << name << " " << text;
    }
  }
}

// Of each distinct list of expressions one name is in the data.
TEST(PreTokenizer, NoExpressionIsUntested) {
  const auto json = ReadJson(THINWIRE_TEXT_TESTDATA "/pre_tokenizers.json");
  std::set<const std::string_view*> tested;
  for (const auto& [name, splits] : json.at("rules").items()) {
    tested.insert(FindPreTokenizer(name).expressions.data());
  }
  for (const PreTokenizerRule& rule : PreTokenizerRules()) {
    EXPECT_EQ(tested.count(rule.expressions.data()), 1u) << rule.name;
  }
}

TEST(PreTokenizer, MatchesOfNothingCutOnly) {
  constexpr std::string_view kBeforeCapitals[] = {"(?=[A-Z])"};
  EXPECT_EQ(Split(kBeforeCapitals, "aBCd"), (Words{"a", "B", "Cd"}));
  EXPECT_EQ(Split(kBeforeCapitals, "é"), (Words{"é"}));
}

TEST(PreTokenizer, SpacesAreUnicodesWithoutTheVowelSeparator) {
  constexpr std::string_view kSpace[] = {R"(\s)"};
  EXPECT_EQ(Split(kSpace, "a\u0085b\u180Ec\u2003d\x1F"),
            (Words{"a", "\u0085", "b\u180Ec", "\u2003", "d\x1F"}));
}

TEST(PreTokenizer, AnUnknownNameListsNearOnes) {
  try {
    FindPreTokenizer("smolm");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("nearest are smollm, "), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(FindPreTokenizer(""), UsageError);
}

TEST(Regex, ABadExpressionIsNamed) {
  try {
    Regex("a(b");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("'a(b', character 3"), std::string::npos)
        << error.what();
  }
}

// Runs that an expression walks back over: time and stack stay linear.
TEST(PreTokenizer, LongRuns) {
  std::set<const std::string_view*> seen;
  RegexMemory memory;
  for (const PreTokenizerRule& rule : PreTokenizerRules()) {
    if (!seen.insert(rule.expressions.data()).second) continue;
    const PreTokenizer pre_tokenizer(rule.expressions);
    for (const char* part : {" ", "a", "A", "中", "\n", "1", "!"}) {
      std::string text;
      for (int i = 0; i < 20000; ++i) text += part;
      size_t bytes = 0;
      pre_tokenizer.Split(text, &memory, [&](std::string_view word) { bytes += word.size(); });
      EXPECT_EQ(bytes, text.size()) << rule.name;
    }
  }
}

}  // namespace
}  // namespace thinwire::text
