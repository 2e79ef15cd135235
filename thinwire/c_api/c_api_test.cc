#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "include/thinwire.h"
#include "thinwire/infer/tiny_model.h"
#include "thinwire/io/testing.h"

namespace thinwire {
namespace {

class CApi : public testing::Test {
 protected:
  CApi() {
    infer::TinyModel(infer::TinyShape{}).Write(path());
    model_.reset(thinwire_load(path().c_str(), nullptr, error_, sizeof(error_)));
  }

  std::string path() { return directory_ / "tiny.gguf"; }
  thinwire_result Generate(const thinwire_request& request, std::string* text = nullptr) {
    const auto show = [](const char* piece, size_t bytes, void* user) {
      EXPECT_EQ(std::char_traits<char>::length(piece), bytes);
      if (user != nullptr) *static_cast<std::string*>(user) += piece;
      return 0;
    };
    return thinwire_generate(model_.get(), &request, show, text, error_, sizeof(error_));
  }

  struct Free {
    void operator()(thinwire_model* model) const { thinwire_free(model); }
  };
  io::TestDirectory directory_;
  char error_[200] = "";
  std::unique_ptr<thinwire_model, Free> model_;
};

TEST_F(CApi, AnswersAsTheSeedSays) {
  ASSERT_NE(model_, nullptr) << error_;
  thinwire_request request = thinwire_request_defaults();
  request.prompt = "hello there";
  request.tokens = 12;
  std::string first, again, other, raw;
  EXPECT_NE(Generate(request, &first), THINWIRE_FAILED) << error_;
  EXPECT_NE(Generate(request, &again), THINWIRE_FAILED);
  EXPECT_EQ(first, again);
  request.seed = 5;
  Generate(request, &other);
  EXPECT_NE(first, other);
  request.raw = 1;
  Generate(request, &raw);
  EXPECT_NE(raw, other);
  EXPECT_FALSE(raw.empty());
}

TEST_F(CApi, StopsWhereItIsTold) {
  ASSERT_NE(model_, nullptr) << error_;
  thinwire_request request = thinwire_request_defaults();
  request.prompt = "hello";
  request.temperature = 0;
  request.tokens = 12;
  std::string whole, cut;
  Generate(request, &whole);
  ASSERT_GT(whole.size(), 6u);
  const std::string stop = whole.substr(3, 2);
  const char* const stops[] = {stop.c_str(), nullptr};
  request.stops = stops;
  EXPECT_EQ(Generate(request, &cut), THINWIRE_ENDED);
  EXPECT_EQ(cut, whole.substr(0, whole.find(stop)));
  request.stops = nullptr;
  const auto refuse = [](const char*, size_t, void*) { return 1; };
  EXPECT_EQ(thinwire_generate(model_.get(), &request, refuse, nullptr, nullptr, 0),
            THINWIRE_STOPPED);
}

TEST_F(CApi, ADraftChangesNothing) {
  infer::TinyShape smaller;
  smaller.layers = 1;
  const std::string draft = directory_ / "draft.gguf";
  infer::TinyModel(smaller).Write(draft);
  thinwire_request request = thinwire_request_defaults();
  request.prompt = "hello there";
  request.temperature = 0;
  request.tokens = 20;
  std::string plain, drafted;
  EXPECT_NE(Generate(request, &plain), THINWIRE_FAILED) << error_;
  thinwire_options options = {};
  options.draft = draft.c_str();
  model_.reset(thinwire_load(path().c_str(), &options, error_, sizeof(error_)));
  ASSERT_NE(model_, nullptr) << error_;
  request.guesses = 4;
  EXPECT_NE(Generate(request, &drafted), THINWIRE_FAILED) << error_;
  EXPECT_EQ(plain, drafted);
  options.draft = "/nowhere/draft.gguf";
  EXPECT_EQ(thinwire_load(path().c_str(), &options, error_, sizeof(error_)), nullptr);
}

TEST_F(CApi, AnswersInTheFormAskedFor) {
  ASSERT_NE(model_, nullptr) << error_;
  thinwire_request request = thinwire_request_defaults();
  request.prompt = "hello";
  request.grammar = "root ::= \"ab\" [c-e]{2} \"f\"";
  std::string text;
  EXPECT_EQ(Generate(request, &text), THINWIRE_ENDED) << error_;
  ASSERT_EQ(text.size(), 5u);
  EXPECT_EQ(text.substr(0, 2) + text.substr(4), "abf");
  request.grammar = "root ::= \"a\" [0-9]";  // of which the model has no token
  EXPECT_EQ(Generate(request), THINWIRE_FAILED);
  EXPECT_NE(std::string(error_).find("no token"), std::string::npos) << error_;
  request.grammar = "root ::= [";
  EXPECT_EQ(Generate(request), THINWIRE_FAILED);
  EXPECT_NE(std::string(error_).find("column 10"), std::string::npos) << error_;
  request.grammar = nullptr;
  request.json_schema = "{\"const\": null}";
  text.clear();
  EXPECT_EQ(Generate(request, &text), THINWIRE_ENDED) << error_;
  EXPECT_EQ(text, "null");
  request.grammar = "root ::= [a]";
  EXPECT_EQ(Generate(request), THINWIRE_FAILED);
}

TEST_F(CApi, CountsTokensBeforeItWritesThem) {
  ASSERT_NE(model_, nullptr) << error_;
  std::vector<int32_t> tokens(3, -1);
  EXPECT_EQ(thinwire_tokenize(model_.get(), "abc", nullptr, 0, nullptr, 0), 3);
  EXPECT_EQ(thinwire_tokenize(model_.get(), "abc", tokens.data(), 2, nullptr, 0), 3);
  EXPECT_GE(tokens[0], 0);
  EXPECT_EQ(tokens[2], -1);
}

TEST_F(CApi, FailuresAreALineAndNothingElse) {
  char error[24] = "";
  EXPECT_EQ(thinwire_load("/nowhere/model.gguf", nullptr, error, sizeof(error)), nullptr);
  EXPECT_EQ(std::string(error).size(), sizeof(error) - 1);  // cut off
  EXPECT_EQ(thinwire_load(nullptr, nullptr, nullptr, 0), nullptr);
  thinwire_options options = {};
  options.threads = -1;
  EXPECT_EQ(thinwire_load(path().c_str(), &options, error_, sizeof(error_)), nullptr);
  EXPECT_NE(std::string(error_).find("threads"), std::string::npos) << error_;
  options = {};
  options.kv_type = "q4";
  EXPECT_EQ(thinwire_load(path().c_str(), &options, error_, sizeof(error_)), nullptr);
  EXPECT_NE(std::string(error_).find("keys and values"), std::string::npos) << error_;
  thinwire_request request = thinwire_request_defaults();
  EXPECT_EQ(Generate(request), THINWIRE_FAILED);
  EXPECT_NE(std::string(error_).find("prompt"), std::string::npos) << error_;
  request.prompt = "a";
  request.top_p = 2;
  EXPECT_EQ(Generate(request), THINWIRE_FAILED);
  EXPECT_NE(std::string(error_).find("top_p"), std::string::npos) << error_;
  EXPECT_EQ(thinwire_generate(nullptr, &request, nullptr, nullptr, error_, sizeof(error_)),
            THINWIRE_FAILED);
  thinwire_free(nullptr);
}

}  // namespace
}  // namespace thinwire
