#include "thinwire/text/token_mask.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "thinwire/text/gbnf.h"
#include "thinwire/text/testing.h"
#include "thinwire/text/utf8.h"

namespace thinwire::text {
namespace {

std::shared_ptr<const GrammarProgram> Program(std::string_view gbnf) {
  return std::make_shared<GrammarProgram>(CompileGrammar(ParseGbnf(gbnf)));
}

// Pieces of characters among them.
class Loaded {
 public:
  explicit Loaded(const std::string& file = "byte_level_smollm.json")
      : parts_(ReadJson(THINWIRE_TEXT_TESTDATA "/" + file)),
        vocabulary_(parts_.source()),
        trie_(vocabulary_) {}

  const Vocabulary& vocabulary() const { return vocabulary_; }
  const TokenTrie& trie() const { return trie_; }
  TokenMask Mask(std::string_view gbnf, int64_t padding = 100,
                 size_t kept = TokenMask::kKept) const {
    return TokenMask(Program(gbnf), trie_, vocabulary_.size() + padding, kept);
  }

 private:
  VocabularyParts parts_;
  Vocabulary vocabulary_;
  TokenTrie trie_;
};

std::vector<int32_t> Tokens(std::span<const uint64_t> mask) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < 64 * mask.size(); ++i) {
    if ((mask[i / 64] >> (i % 64) & 1) != 0) tokens.push_back(static_cast<int32_t>(i));
  }
  return tokens;
}

constexpr const char* kJson = R"G(
root ::= value
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" s (string s ":" s value (s "," s string s ":" s value)*)? s "}"
array ::= "[" s (value (s "," s value)*)? s "]"
string ::= "\"" ([^"\\\x00-\x1F] | "\\" ["\\/bfnrt])* "\""
number ::= "-"? [0-9]+ ("." [0-9]+)?
s ::= [ \n]?
)G";

TEST(TokenMask, IsWhatTokenByTokenIsFoundAlongRandomTexts) {
  for (const char* const file : {"byte_level_smollm.json", "sentence_piece_bpe_bytes.json"}) {
    const Loaded model(file);
    std::mt19937 random(3);
    int ended = 0;
    for (int round = 0; round < 12; ++round) {
      // With little room everything is forgotten again and again.
      TokenMask mask = model.Mask(kJson, 100, round % 2 == 0 ? TokenMask::kKept : 3000);
      TokenMask plain = model.Mask(kJson);
      std::string text;
      for (int step = 0; step < 40; ++step) {
        const std::vector<int32_t> allowed = Tokens(mask.Allowed());
        std::vector<int32_t> expected;
        for (int32_t token = 0; token < model.vocabulary().size(); ++token) {
          const bool ends = model.vocabulary().EndsGeneration(token);
          const bool possible = plain.Possible({{token}}) == 1;
          if (ends ? plain.Complete() : possible) expected.push_back(token);
        }
        ASSERT_EQ(allowed, expected) << text;
        if (allowed.empty()) break;
        const int32_t token = allowed[random() % allowed.size()];
        ASSERT_TRUE(mask.Accept(token) && plain.Accept(token));
        if (model.vocabulary().EndsGeneration(token)) {
          ++ended;
          break;
        }
        text += model.vocabulary().Bytes(token);
      }
      // Cut characters aside, all of it is text.
      EXPECT_LT(text.size() - ValidUtf8Prefix(text), 4u) << text;
    }
    EXPECT_GT(ended, 0);
  }
}

TEST(TokenMask, OffersNoControlTokensAndTheEndOnlyWhereTheTextIsComplete) {
  const Loaded model;
  TokenMask mask = model.Mask("root ::= .*");
  for (const int32_t token : Tokens(mask.Allowed())) {
    EXPECT_TRUE(model.vocabulary().IsPlain(token) || model.vocabulary().EndsGeneration(token));
  }
  EXPECT_FALSE(mask.Ended());
  EXPECT_FALSE(mask.Accept(model.vocabulary().size() + 3));
  EXPECT_FALSE(mask.Accept(-1));
  TokenMask one = model.Mask("root ::= \"é!\"");
  for (const int32_t token : Tokens(one.Allowed())) {
    EXPECT_TRUE(std::string_view("é!").starts_with(model.vocabulary().Bytes(token)));
  }
  const int32_t half = model.vocabulary().ByteToken(0xC3);
  ASSERT_TRUE(one.Accept(half));
  EXPECT_EQ(Tokens(one.Allowed()), std::vector<int32_t>{model.vocabulary().ByteToken(0xA9)});
  ASSERT_TRUE(one.Accept(model.vocabulary().ByteToken(0xA9)));
  ASSERT_TRUE(one.Accept(model.vocabulary().ByteToken('!')));
  EXPECT_TRUE(one.Ended());
  for (const int32_t token : Tokens(one.Allowed())) {
    EXPECT_TRUE(model.vocabulary().EndsGeneration(token));
  }
}

TEST(TokenMask, SaysSoWhereNoTokenGoesOn) {
  const Loaded model("sentence_piece_bpe.json");  // without byte tokens
  TokenMask mask = model.Mask("root ::= \"a\" \"\\U0001F600\"");
  ASSERT_TRUE(mask.Accept(model.vocabulary().Find("a")));
  EXPECT_TRUE(mask.Allowed().empty());
  EXPECT_FALSE(mask.Complete());
}

}  // namespace
}  // namespace thinwire::text
