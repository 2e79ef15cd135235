// Tokens against those of Hugging Face's tokenizers and of SentencePiece, and back to text.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "thinwire/text/decoder.h"
#include "thinwire/text/testing.h"
#include "thinwire/text/tokenizer.h"

namespace thinwire::text {
namespace {

std::string Decode(const Vocabulary& vocabulary, const std::vector<int32_t>& ids,
                   bool skip_special) {
  Decoder decoder(vocabulary, {.skip_special = skip_special});
  std::vector<char> out(decoder.MaxBytes());
  std::string text;
  for (const int32_t id : ids) text.append(out.data(), decoder.Append(id, out));
  return text.append(out.data(), decoder.Finish(out));
}

void Check(const nlohmann::json& json) {
  const VocabularyParts parts(json);
  const Tokenizer tokenizer(parts.source());
  Encoder encoder(tokenizer);
  int failures = 0;
  for (const auto& expected : json.at("cases")) {
    const std::string text = expected.at("text");
    std::vector<int32_t> ids;
    encoder.Encode(text, {.parse_special = expected.value("parse_special", false)}, &ids);
    const auto wanted = expected.at("ids").get<std::vector<int32_t>>();
    EXPECT_EQ(ids, wanted) << expected.at("text");
    if (expected.contains("decoded")) {
      EXPECT_EQ(Decode(tokenizer.vocabulary(), wanted, true), expected.at("decoded"))
          << expected.at("text");
    }
    if (testing::Test::HasFailure() && ++failures == 5) return;
  }
}

class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, TokensAndTextAreThoseOfOthers) {
  Check(ReadJson(std::string(THINWIRE_TEXT_TESTDATA "/") + GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Files, Golden,
                         testing::Values("byte_level_smollm.json", "byte_level_llama-bpe.json",
                                         "sentence_piece_bpe.json", "sentence_piece_bpe_bytes.json",
                                         "sentence_piece_unigram_bytes.json"),
                         [](const auto& test) {
                           std::string name = test.param;
                           name.resize(name.find('.'));
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace thinwire::text
