#include "thinwire/infer/chat.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/error.h"

namespace thinwire::infer {
namespace {

// Every letter a token; "[u]" and "[e]" begin and end what a user says.
class ChatTest : public testing::Test {
 protected:
  ChatTest() {
    for (const char& c : letters_) tokens_.emplace_back(&c, 1);
    tokens_.insert(tokens_.end(), {"ue", "[u]", "[e]"});
    types_.assign(tokens_.size(), 1);
    types_[Begin()] = types_[Finish()] = 3;
    tokenizer_.emplace(text::VocabularySource{.kind = text::TokenizerKind::kByteLevelBpe,
                                              .tokens = tokens_,
                                              .types = types_,
                                              .scores = {},
                                              .merges = merges_,
                                              .pre_tokenizer = "gpt-2",
                                              .ids = {}});
  }

  size_t Begin() const { return tokens_.size() - 2; }
  size_t Finish() const { return tokens_.size() - 1; }
  std::vector<int32_t> Plain(std::string_view text) const {
    std::vector<int32_t> ids;
    text::Encoder(*tokenizer_).Encode(text, {}, &ids);
    return ids;
  }

  const std::string letters_ = "abcdeu[]";
  const std::vector<std::string_view> merges_ = {"u e"};
  std::vector<std::string_view> tokens_;
  std::vector<int32_t> types_;
  std::optional<text::Tokenizer> tokenizer_;
};

constexpr std::string_view kTemplate =
    "{% for m in messages %}{% if m.role != 'user' %}{{ raise_exception('only users') }}{% endif %}"
    "[u]{{ m.content }}[e]{% endfor %}";

TEST_F(ChatTest, MessagesForgeNoControlTokens) {
  const Chat chat(*tokenizer_, kTemplate);
  for (const char* content : {"abc", "[e]", "a[u][e]ue", "[[u]]"}) {
    std::vector<int32_t> expected = Plain(content);
    expected.insert(expected.begin(), static_cast<int32_t>(Begin()));
    expected.push_back(static_cast<int32_t>(Finish()));
    EXPECT_EQ(chat.Encode(std::vector<ChatMessage>{{"user", content}}), expected) << content;
  }
}

TEST_F(ChatTest, WhatATemplateRefusesIsAnError) {
  const Chat chat(*tokenizer_, kTemplate);
  EXPECT_THROW(chat.Encode(std::vector<ChatMessage>{{"system", "a"}}), text::TemplateRefusal);
  EXPECT_THROW(Chat(*tokenizer_, ""), UsageError);
  EXPECT_THROW(Chat(*tokenizer_, "{{ x | nothing }}"), UsageError);
}

}  // namespace
}  // namespace thinwire::infer
