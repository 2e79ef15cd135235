#include "thinwire/io/gguf.h"

#include <gtest/gtest.h>

#include <fstream>

#include "thinwire/base/error.h"
#include "thinwire/io/gguf_testing.h"
#include "thinwire/io/testing.h"

namespace thinwire::io {
namespace {

class Gguf : public testing::Test {
 protected:
  std::string Write(const std::string& content) {
    const std::string path = dir_ / "x.gguf";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  TestDirectory dir_;
};

template <typename T>
std::vector<T> Vector(std::span<const T> values) {
  return {values.begin(), values.end()};
}

TEST_F(Gguf, ReadsWhatIsThere) {
  for (const uint32_t version : {2u, 3u}) {
    std::string content = SmallGguf();
    std::memcpy(content.data() + 4, &version, sizeof version);
    const GgufFile file(Write(content));
    EXPECT_EQ(file.version(), version);
    EXPECT_EQ(file.alignment(), 32);
    EXPECT_EQ(file.entries().size(), 5u);
    EXPECT_EQ(file.Get<std::string_view>("general.architecture"), "llama");
    EXPECT_EQ(file.Get<uint32_t>("llama.block_count"), 2u);
    EXPECT_EQ(file.Find<uint32_t>("llama.block_count"), 2u);
    EXPECT_TRUE(file.Get<bool>("flag"));
    EXPECT_EQ(file.GetStrings("tokenizer.ggml.tokens"), (std::vector<std::string_view>{"a", "",
                                                                                       "\xc4\xa0"
                                                                                       "bc"}));
    EXPECT_EQ(file.GetArray<float>("tokenizer.ggml.scores").ToVector(),
              (std::vector<float>{0.5f, -1.0f, 2.0f}));
    EXPECT_EQ(file.Find<uint32_t>("none"), std::nullopt);
    EXPECT_EQ(file.FindArray<float>("none").has_value(), false);
    EXPECT_EQ(file.FindStrings("none"), std::nullopt);
    EXPECT_EQ(file.FindInteger("none", 0, 1), std::nullopt);

    ASSERT_EQ(file.tensors().size(), 2u);
    const GgufTensor& a = file.Tensor("a.weight", {2, 32});
    EXPECT_EQ(&a, &file.tensors()[0]);
    EXPECT_EQ(a.type, WeightType::kQ8_0);
    EXPECT_EQ(a.columns(), 32);
    EXPECT_EQ(a.elements(), 64);
    ASSERT_EQ(a.data.size(), 68u);
    EXPECT_EQ(a.data[67], std::byte{67});
    const GgufTensor& b = file.Tensor("b.bias");
    EXPECT_EQ(Vector(b.shape()), std::vector<int64_t>{3});
    EXPECT_EQ(GgufArray<float>(b.data)[2], 3.0f);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data.data()) % 32, 0u);
    EXPECT_EQ(file.FindTensor("b"), nullptr);

    file.Drop(a.data);
    EXPECT_EQ(a.data[67], std::byte{67});
  }
}

TEST_F(Gguf, EveryTypeOfValue) {
  GgufBytes bytes;
  bytes.Header(0, 12);
  bytes.Key<uint8_t>("u8", 0, 200).Key<int8_t>("i8", 1, -100);
  bytes.Key<uint16_t>("u16", 2, 60000).Key<int16_t>("i16", 3, -30000);
  bytes.Key<uint32_t>("u32", 4, 4'000'000'000).Key<int32_t>("i32", 5, -2'000'000'000);
  bytes.Key<float>("f32", 6, 0.25f).Key<uint8_t>("bool", 7, 0).KeyString("string", "\xff");
  bytes.Key<uint64_t>("u64", 10, UINT64_MAX).Key<int64_t>("i64", 11, INT64_MIN);
  bytes.Key<double>("f64", 12, 0.1);
  const GgufFile file(Write(bytes.str()));
  EXPECT_EQ(file.Get<uint8_t>("u8"), 200);
  EXPECT_EQ(file.Get<int8_t>("i8"), -100);
  EXPECT_EQ(file.Get<uint16_t>("u16"), 60000);
  EXPECT_EQ(file.Get<int16_t>("i16"), -30000);
  EXPECT_EQ(file.Get<uint32_t>("u32"), 4'000'000'000u);
  EXPECT_EQ(file.Get<int32_t>("i32"), -2'000'000'000);
  EXPECT_EQ(file.Get<float>("f32"), 0.25f);
  EXPECT_EQ(file.Get<bool>("bool"), false);
  EXPECT_EQ(file.Get<std::string_view>("string"), "\xff");  // strings are bytes
  EXPECT_EQ(file.Get<uint64_t>("u64"), UINT64_MAX);
  EXPECT_EQ(file.Get<int64_t>("i64"), INT64_MIN);
  EXPECT_EQ(file.Get<double>("f64"), 0.1);
  EXPECT_EQ(file.GetInteger("i8", -128, 0), -100);
  EXPECT_EQ(file.GetInteger("u32", 0, INT64_MAX), 4'000'000'000);
  EXPECT_EQ(file.GetInteger("i64", INT64_MIN, 0), INT64_MIN);
}

TEST_F(Gguf, WrongUseNamesKeyExpectedAndFound) {
  const std::string path = Write(SmallGguf());
  const GgufFile file(path);
  const auto error = [](const auto& call) { return MessageOf<UsageError>(call); };
  EXPECT_EQ(error([&] { file.Get<float>("llama.block_count"); }),
            path + ": key \"llama.block_count\": f32 expected, found u32");
  EXPECT_EQ(error([&] { file.Find<int32_t>("llama.block_count"); }),
            path + ": key \"llama.block_count\": i32 expected, found u32");
  EXPECT_EQ(error([&] { file.Get<uint32_t>("x.y"); }),
            path + ": key \"x.y\": u32 expected, but the key is missing");
  EXPECT_EQ(error([&] { file.GetArray<int32_t>("tokenizer.ggml.scores"); }),
            path + ": key \"tokenizer.ggml.scores\": array of i32 expected, found array of 3 f32");
  EXPECT_EQ(error([&] { file.GetStrings("flag"); }),
            path + ": key \"flag\": array of string expected, found bool");
  EXPECT_EQ(error([&] { file.GetArray<float>("z"); }),
            path + ": key \"z\": array of f32 expected, but the key is missing");
  EXPECT_EQ(error([&] { file.GetInteger("llama.block_count", 3, 512); }),
            path + ": key \"llama.block_count\": 3 to 512 expected, found 2");
  EXPECT_EQ(error([&] { file.GetInteger("flag", 0, 1); }),
            path + ": key \"flag\": an integer expected, found bool");
  EXPECT_EQ(error([&] { file.GetIntegers("tokenizer.ggml.scores", 0, 1); }),
            path +
                ": key \"tokenizer.ggml.scores\": an array of integers expected, found array "
                "of 3 f32");
  EXPECT_EQ(error([&] { file.Tensor("output.weight"); }),
            path + ": tensor \"output.weight\" is missing");
  EXPECT_EQ(error([&] {
              file.Tensor("a.weight", {32, 2});
            }),
            path + ": tensor \"a.weight\": shape [32, 2] expected, found [2, 32]");
}

TEST_F(Gguf, Integers) {
  GgufBytes bytes;
  bytes.Header(0, 3);
  bytes.KeyArray("heads", 5, 3).Put<int32_t>(9).Put<int32_t>(3).Put<int32_t>(-1);
  bytes.Key<uint64_t>("huge", 10, UINT64_MAX);
  bytes.Key<uint16_t>("split.count", 2, 3);
  const std::string path = Write(bytes.str());
  const GgufFile file(path);
  EXPECT_EQ(file.GetIntegers("heads", -1, 9), (std::vector<int64_t>{9, 3, -1}));
  EXPECT_EQ(MessageOf<UsageError>([&] { file.GetIntegers("heads", 0, 9); }),
            path + ": key \"heads\": element 2: 0 to 9 expected, found -1");
  EXPECT_CONTAINS(MessageOf<UsageError>([&] { file.GetInteger("huge", 0, INT64_MAX); }),
                  "found 2^63 or more");
  EXPECT_CONTAINS(MessageOf<UsageError>([&] { file.Tensor("x"); }), "one part of a split model");
}

// llama.cpp PR #26690: an array of bytes is not read as one of floats, however long it is.
TEST_F(Gguf, ScoresOfAnotherTypeAreNotCast) {
  GgufBytes bytes;
  bytes.Header(0, 1).KeyArray("tokenizer.ggml.scores", 0, 4).Put<uint32_t>(0);
  const GgufFile file(Write(bytes.str()));
  EXPECT_CONTAINS(MessageOf<UsageError>([&] { file.GetArray<float>("tokenizer.ggml.scores"); }),
                  "\"tokenizer.ggml.scores\": array of f32 expected, found array of 4 u8");
}

TEST_F(Gguf, ParsesAVocabularyWithinMilliseconds) {
  GgufBytes bytes;
  bytes.Header(0, 2).KeyArray("tokens", 8, 49152);
  for (int i = 0; i < 49152; ++i) bytes.String("token" + std::to_string(i));
  bytes.KeyArray("merges", 8, 48900);
  for (int i = 0; i < 48900; ++i) bytes.String("x y" + std::to_string(i));
  const GgufFile file(Write(bytes.str()));
  EXPECT_EQ(file.GetStrings("tokens")[49151], "token49151");
  EXPECT_EQ(file.GetStrings("merges")[48899], "x y48899");
}

}  // namespace
}  // namespace thinwire::io
