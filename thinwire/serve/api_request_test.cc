#include "thinwire/serve/api_request.h"

#include <gtest/gtest.h>

#include <memory>

#include "thinwire/serve/api_error.h"
#include "thinwire/text/grammar_automaton.h"

namespace thinwire::serve {
namespace {

constexpr RequestLimits kLimits = {.tokens = 100, .vocabulary = 50};

// The field that `body` is refused for; "-" where it is not.
template <typename Parse>
std::string Refused(const Parse& parse, std::string_view body) {
  try {
    parse(body, kLimits);
    return "-";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    return error.field();
  }
}

TEST(ApiRequest, ReadsEveryFieldOfACompletion) {
  const CompletionRequest request = ParseCompletion(
      R"({"model": "any", "prompt": [1, 2], "max_tokens": 7, "temperature": 0.5, "top_p": 0.25,
          "top_k": 3, "min_p": 0.125, "repetition_penalty": 1.5, "seed": -1, "stop": "x",
          "logit_bias": {"4": -100}, "stream": true, "stream_options": {"include_usage": true},
          "logprobs": 4, "n": 1, "user": "me", "grammar": "root ::= [a]"})",
      kLimits);
  EXPECT_EQ(std::get<std::vector<int32_t>>(request.prompt), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(request.most_tokens, 7);
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_p, 0.25);
  EXPECT_EQ(request.sampling.top_k, 3);
  EXPECT_EQ(request.sampling.min_p, 0.125);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5);
  EXPECT_EQ(request.seed, ~uint64_t{0});
  EXPECT_EQ(request.stops, std::vector<std::string>{"x"});
  ASSERT_EQ(request.sampling.logit_bias.size(), 1u);
  EXPECT_EQ(request.sampling.logit_bias[0], (std::pair<int32_t, float>(4, -100)));
  EXPECT_TRUE(request.stream && request.stream_usage && request.log_probabilities);
  EXPECT_EQ(request.sampling.likeliest, 4);
  EXPECT_TRUE(request.form.has_value());
  EXPECT_EQ(request.form_field, "grammar");
}

TEST(ApiRequest, NullIsAFieldThatIsNotThere) {
  const CompletionRequest request = ParseCompletion(
      R"({"prompt": ["a"], "seed": null, "stop": null, "logprobs": null, "max_tokens": null})",
      kLimits);
  EXPECT_EQ(std::get<std::string>(request.prompt), "a");
  EXPECT_FALSE(request.seed || request.most_tokens || request.log_probabilities);
}

TEST(ApiRequest, JoinsTheTextsOfAMessage) {
  const CompletionRequest request = ParseChat(
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content":
          [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
          "max_completion_tokens": 100, "response_format": {"type": "text"}})",
      kLimits);
  ASSERT_EQ(request.messages.size(), 2u);
  EXPECT_EQ(request.messages[1].role, "user");
  EXPECT_EQ(request.messages[1].content, "ab");
  EXPECT_EQ(request.most_tokens, 100);
}

TEST(ApiRequest, ReadsTheFormOfAnAnswer) {
  const auto form = [](std::string_view fields) {
    return ParseChat(StrCat(R"({"messages": [{"role": "user", "content": "a"}], )", fields, "}"),
                     kLimits)
        .form;
  };
  const auto refused = [](std::string_view fields) {
    return Refused(ParseChat,
                   StrCat(R"({"messages": [{"role": "user", "content": "a"}], )", fields, "}"));
  };
  EXPECT_FALSE(form(R"("response_format": {"type": "text"})").has_value());
  EXPECT_TRUE(form(R"("response_format": {"type": "json_object"})").has_value());
  const auto schema =
      form(R"("response_format": {"type": "json_schema", "json_schema": {"name": "n",
      "strict": true, "schema": {"properties": {"b": true, "a": true}, "required": ["b", "a"]}}})");
  ASSERT_TRUE(schema.has_value());
  // Members come in the order of the schema, not of the alphabet.
  text::GrammarAutomaton automaton(
      std::make_shared<text::GrammarProgram>(text::CompileGrammar(*schema)));
  const auto accepts = [&](std::string_view answer) {
    auto state = automaton.start();
    for (const char c : answer) state = automaton.Next(state, static_cast<uint8_t>(c));
    return automaton.Complete(state);
  };
  EXPECT_TRUE(accepts(R"({"b": 1, "a": 2})"));
  EXPECT_FALSE(accepts(R"({"a": 1, "b": 2})"));
  EXPECT_EQ(refused(R"("response_format": {"type": "xml"})"), "response_format.type");
  EXPECT_EQ(refused(R"("response_format": {"type": "json_schema"})"),
            "response_format.json_schema");
  EXPECT_EQ(refused(R"("response_format": {"type": "json_schema", "json_schema": {"x": 1}})"),
            "response_format.json_schema.schema");
  EXPECT_EQ(refused(R"("response_format": {"type": "json_schema", "json_schema": {"schema":
                    {"uniqueItems": true}}})"),
            "response_format.json_schema.schema");
  EXPECT_EQ(refused(R"("grammar": "root ::= [")"), "grammar");
  EXPECT_EQ(refused(R"("grammar": "root ::= [a]", "response_format": {"type": "json_object"})"),
            "grammar");
  std::string many =
      R"("response_format": {"type": "json_schema", "json_schema": {"schema": {}}}, )";
  many += "\"logit_bias\": {\"0\": 1";
  for (int i = 1; i < 2000; ++i) many += StrCat(", \"0", i, "\": 1");
  EXPECT_NE(refused(many + "}"), "-");
}

TEST(ApiRequest, NamesTheFieldThatIsWrong) {
  const auto completion = [](std::string_view fields) {
    return Refused(ParseCompletion, StrCat(R"({"prompt": "a", )", fields, "}"));
  };
  EXPECT_EQ(completion(R"("top_k": 5)"), "-");
  EXPECT_EQ(completion(R"("top_k": 18446744073709551615)"), "top_k");
  EXPECT_EQ(completion(R"("max_tokens": 101)"), "max_tokens");
  EXPECT_EQ(completion(R"("max_tokens": 1e2)"), "max_tokens");
  EXPECT_EQ(completion(R"("n": 2)"), "n");
  EXPECT_EQ(completion(R"("logprobs": 21)"), "logprobs");
  EXPECT_EQ(completion(R"("presence_penalty": 0.5)"), "presence_penalty");
  EXPECT_EQ(completion(R"("stream_options": {"x": 1})"), "stream_options.x");
  EXPECT_EQ(completion(R"("logit_bias": {"4": "x"})"), "logit_bias.4");
  EXPECT_EQ(Refused(ParseChat, R"({"messages": [{"role": "user", "content": 7}]})"),
            "messages[0].content");
  EXPECT_EQ(Refused(ParseChat, R"({"messages": ["x"]})"), "messages[0]");
  EXPECT_EQ(
      Refused(ParseChat, R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})"),
      "messages[0].content.type");
  EXPECT_EQ(Refused(ParseEmbedding, R"({"input": [[1, 50]]})"), "input");
  EXPECT_EQ(Refused(ParseEmbedding, R"({"input": "a", "encoding_format": "base64"})"),
            "encoding_format");
  EXPECT_EQ(Refused(ParseEmbedding, "\"text\""), "");
}

}  // namespace
}  // namespace thinwire::serve
