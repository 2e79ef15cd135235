#include "thinwire/text/decoder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "thinwire/text/testing.h"
#include "thinwire/text/utf8.h"

namespace thinwire::text {
namespace {

nlohmann::json Bytes() {
  nlohmann::json json = {{"kind", "sentence_piece"}, {"add_space_prefix", true}, {"unknown", 0}};
  json["tokens"] = {"<unk>", "<s>", "▁", "▁a", "b"};
  json["types"] = {2, 3, 1, 1, 1};
  const char* digits = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    json["tokens"].push_back(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">");
    json["types"].push_back(6);
  }
  json["scores"] = std::vector<float>(json["tokens"].size());
  return json;
}
constexpr int32_t kByte0 = 5;

class DecoderTest : public testing::Test {
 protected:
  // The pieces as they come, joined with "|".
  std::string Pieces(const std::vector<int32_t>& ids, const DecodeOptions& options = {}) {
    Decoder decoder(vocabulary_, options);
    std::vector<char> out(decoder.MaxBytes());
    std::string pieces;
    for (const int32_t id : ids) pieces.append(out.data(), decoder.Append(id, out)) += '|';
    return pieces.append(out.data(), decoder.Finish(out));
  }

  const VocabularyParts parts_{Bytes()};
  const Vocabulary vocabulary_{parts_.source()};
};

TEST_F(DecoderTest, TheSpacePrefixIsStrippedOnce) {
  EXPECT_EQ(Pieces({3, 3, 4}), "a| a|b|");
  EXPECT_EQ(Pieces({2, 2, 4}), "| |b|");
  EXPECT_EQ(Pieces({4, 3}), "b| a|");
  EXPECT_EQ(Pieces({1, 3}), "|a|");
  EXPECT_EQ(Pieces({1, 3}, {.skip_special = false}), "<s>| a|");
  EXPECT_EQ(Pieces({3}, {.strip_space_prefix = false}), " a|");
}

TEST_F(DecoderTest, BytesWaitForTheirCharacter) {
  const std::string r(kReplacement);
  EXPECT_EQ(Pieces({kByte0 + 0xF0, kByte0 + 0x9F, kByte0 + 0xA6, kByte0 + 0x99, 4}), "|||🦙|b|");
  EXPECT_EQ(Pieces({kByte0 + 0xE4, kByte0 + 0xBD, 4}), "||" + r + "b|");
  EXPECT_EQ(Pieces({kByte0 + 0xE4, kByte0 + 0xBD}), "||" + r);
  EXPECT_EQ(Pieces({kByte0 + 0xFF, kByte0 + 0xE4, kByte0 + 0xE4, 4}),
            r + "||" + r + "|" + r + "b|");
}

TEST_F(DecoderTest, IdsThatAreNoTokensAddNothing) { EXPECT_EQ(Pieces({-1, 100000, 4}), "||b|"); }

}  // namespace
}  // namespace thinwire::text
