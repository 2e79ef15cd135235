// Encoding and decoding allocate nothing once they have seen a text as large.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "thinwire/base/counted_malloc.h"
#include "thinwire/text/decoder.h"
#include "thinwire/text/testing.h"
#include "thinwire/text/tokenizer.h"

namespace thinwire::text {
namespace {

class AllocationTest : public testing::TestWithParam<const char*> {};

TEST_P(AllocationTest, NoneAfterTheFirstText) {
  if (!THINWIRE_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer owns the allocator";
  const nlohmann::json json = ReadJson(std::string(THINWIRE_TEXT_TESTDATA "/") + GetParam());
  const VocabularyParts parts(json);
  const Tokenizer tokenizer(parts.source());
  Encoder encoder(tokenizer);
  std::string all;
  std::vector<std::string> texts;
  for (const auto& expected : json.at("cases")) all += texts.emplace_back(expected.at("text"));
  // One word as long as everything, and everything.
  std::vector<int32_t> ids;
  ids.reserve(Encoder::MaxIds(all.size()));
  encoder.Encode(std::string(all.size(), 'a'), {}, &ids);
  ids.clear();
  encoder.Encode(all, {.parse_special = true}, &ids);

  Decoder decoder(tokenizer.vocabulary());
  std::vector<char> out(decoder.MaxBytes());
  size_t bytes = 0;
  Counter().count = 0;
  Counter().on = true;
  for (const std::string& text : texts) {
    ids.clear();
    encoder.Encode(text, {.parse_special = true}, &ids);
    for (const int32_t id : ids) bytes += decoder.Append(id, out);
    bytes += decoder.Finish(out);
  }
  Counter().on = false;
  EXPECT_EQ(Counter().count, 0);
  EXPECT_GT(bytes, all.size() / 2);
}

INSTANTIATE_TEST_SUITE_P(Files, AllocationTest,
                         testing::Values("byte_level_smollm.json", "byte_level_llama-bpe.json",
                                         "sentence_piece_bpe_bytes.json",
                                         "sentence_piece_unigram_bytes.json"));

}  // namespace
}  // namespace thinwire::text
