#include "thinwire/infer/vocabulary_from_gguf.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/io/file.h"
#include "thinwire/io/gguf_writer.h"

namespace thinwire::infer {
namespace {

// A file of keys alone, gone at the end of the test.
class TokenizerFile {
 public:
  TokenizerFile()
      : path_(testing::TempDir() + "thinwire_vocabulary_" +
              testing::UnitTest::GetInstance()->current_test_info()->name() + ".gguf"),
        writer_(io::RealFileSystem(), path_) {}
  ~TokenizerFile() { std::filesystem::remove(path_); }

  io::GgufWriter& writer() { return writer_; }
  TokenizerFile& ByteLevel(std::string_view pre) {
    writer_.Set<std::string_view>("tokenizer.ggml.model", "gpt2");
    if (!pre.empty()) writer_.Set<std::string_view>("tokenizer.ggml.pre", pre);
    writer_.SetStrings("tokenizer.ggml.tokens",
                       std::vector<std::string_view>{"<s>", "a", "b", "Ġ", "ab"});
    writer_.SetStrings("tokenizer.ggml.merges", std::vector<std::string_view>{"a b"});
    return *this;
  }
  io::GgufFile Finish() {
    writer_.Begin();
    writer_.Finish();
    return io::GgufFile(path_);
  }
  std::string Error() {
    const io::GgufFile file = Finish();
    try {
      ReadTokenizer(file);
    } catch (const UsageError& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with(path_)) << message;
      return message;
    }
    return "none";
  }

 private:
  std::string path_;
  io::GgufWriter writer_;
};

void SetTypes(TokenizerFile& file, std::vector<int32_t> types) {
  file.writer().SetArray<int32_t>("tokenizer.ggml.token_type", types);
}

TEST(ReadTokenizer, ByteLevel) {
  TokenizerFile file;
  file.ByteLevel("gpt-2");
  SetTypes(file, {3, 1, 1, 1, 1});
  file.writer().Set<uint32_t>("tokenizer.ggml.bos_token_id", 0);
  file.writer().Set<bool>("tokenizer.ggml.add_bos_token", true);
  file.writer().Set<std::string_view>("tokenizer.chat_template", "{{ x }}");
  const io::GgufFile gguf = file.Finish();
  const auto tokenizer = ReadTokenizer(gguf);
  text::Encoder encoder(*tokenizer);
  std::vector<int32_t> ids;
  encoder.Encode("ab ab", {}, &ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 4, 3, 4}));
  EXPECT_EQ(FindChatTemplate(gguf), "{{ x }}");
}

TEST(ReadTokenizer, SentencePieceAddsItsPrefixUnlessTold) {
  for (const bool told : {false, true}) {
    TokenizerFile file;
    file.writer().Set<std::string_view>("tokenizer.ggml.model", "llama");
    file.writer().SetStrings("tokenizer.ggml.tokens",
                             std::vector<std::string_view>{"<s>", "a", "▁", "▁a", "<0x21>"});
    file.writer().SetArray<float>("tokenizer.ggml.scores", std::vector<float>{0, -1, -2, -3, 0});
    SetTypes(file, {3, 1, 1, 1, 6});
    file.writer().Set<uint32_t>("tokenizer.ggml.bos_token_id", 0);
    if (told) file.writer().Set<bool>("tokenizer.ggml.add_space_prefix", false);
    const auto tokenizer = ReadTokenizer(file.Finish());
    text::Encoder encoder(*tokenizer);
    std::vector<int32_t> ids;
    encoder.Encode("a!", {}, &ids);
    EXPECT_EQ(ids, (std::vector<int32_t>{0, told ? 1 : 3, 4}));
    EXPECT_EQ(encoder.Encode("a\n", {}, &ids), 1u);
  }
}

TEST(ReadTokenizer, ArraysOfAnotherTypeAreRefused) {
  TokenizerFile file;
  file.ByteLevel("gpt-2");
  file.writer().SetArray<uint8_t>("tokenizer.ggml.token_type", std::vector<uint8_t>{3, 1, 1, 1, 1});
  EXPECT_NE(file.Error().find("tokenizer.ggml.token_type"), std::string::npos);
}

TEST(ReadTokenizer, AnIdThatIsNoTokenIsRefused) {
  TokenizerFile file;
  file.ByteLevel("gpt-2");
  file.writer().Set<uint32_t>("tokenizer.ggml.eos_token_id", 1000000000);
  EXPECT_NE(file.Error().find("tokenizer.ggml.eos_token_id"), std::string::npos);
}

TEST(ReadTokenizer, AnUnknownOrMissingPreTokenizerIsRefused) {
  TokenizerFile file;
  EXPECT_NE(file.ByteLevel("qwen").Error().find("qwen2"), std::string::npos);
}

TEST(ReadTokenizer, AMissingPreTokenizerIsRefused) {
  TokenizerFile file;
  EXPECT_NE(file.ByteLevel("").Error().find("tokenizer.ggml.pre"), std::string::npos);
}

TEST(ReadTokenizer, AnotherKindIsRefused) {
  TokenizerFile file;
  file.writer().Set<std::string_view>("tokenizer.ggml.model", "rwkv");
  EXPECT_NE(file.Error().find("'rwkv' is not among"), std::string::npos);
}

}  // namespace
}  // namespace thinwire::infer
