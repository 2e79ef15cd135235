#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "thinwire/base/dtype.h"
#include "thinwire/io/testing.h"
#include "thinwire/speech/testing.h"
#include "thinwire/speech/vocabulary.h"

namespace thinwire::speech {
namespace {

template <typename T>
void Put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}
void PutString(std::string& bytes, const std::string& text) {
  Put(bytes, static_cast<uint16_t>(text.size() + 1));
  bytes += text + '\0';
}

// A folder as CTranslate2's converter writes it, byte by byte from the format's description.
class Ct2Writer {
 public:
  explicit Ct2Writer(const RandomModel& model) : model_(model) {
    for (const WhisperTensor& tensor : model.tensors()) {
      std::vector<float>& values = tensors_[tensor.ct2_name];
      std::vector<float> own = model.Values(tensor);
      const auto width = static_cast<size_t>(tensor.columns), in = width / 3;
      if (tensor.kind == WhisperTensor::Kind::kConvolution) {  // [out][in][step]
        const std::vector<float> ours = own;
        for (size_t i = 0; i < own.size(); ++i) {
          own[i / width * width + i % in * 3 + i % width / in] = ours[i];
        }
        shapes_[tensor.ct2_name] = {static_cast<uint32_t>(tensor.rows), static_cast<uint32_t>(in),
                                    3};
      } else if (tensor.kind != WhisperTensor::Kind::kVector) {
        shapes_[tensor.ct2_name] = {static_cast<uint32_t>(tensor.rows + tensor.ct2_row),
                                    static_cast<uint32_t>(width)};
      }
      // Parts of one tensor, some of them zeros that no one asks for.
      const size_t begin = static_cast<size_t>(tensor.ct2_row) *
                           (tensor.kind == WhisperTensor::Kind::kVector ? 1 : width);
      values.resize(std::max(values.size(), begin + own.size()));
      std::ranges::copy(own, values.begin() + static_cast<ptrdiff_t>(begin));
    }
  }

  std::string Binary() const {
    std::string bytes;
    Put<uint32_t>(bytes, 6);
    PutString(bytes, "WhisperSpec");
    Put<uint32_t>(bytes, 3);
    Put(bytes, static_cast<uint32_t>(tensors_.size() + 2));
    for (const char* name : {"encoder/num_heads", "decoder/num_heads"}) {
      PutString(bytes, name);
      bytes += std::string("\0\2\2\0\0\0\2\0", 8);  // no extents, int16, two bytes: 2
    }
    for (const auto& [name, values] : tensors_) {
      PutString(bytes, name);
      std::vector<uint32_t> shape = {static_cast<uint32_t>(values.size())};
      if (shapes_.contains(name)) shape = shapes_.at(name);
      Put(bytes, static_cast<uint8_t>(shape.size()));
      for (const uint32_t extent : shape) Put(bytes, extent);
      Put<uint8_t>(bytes, 4);  // fp16
      Put(bytes, static_cast<uint32_t>(2 * values.size()));
      for (const float x : values) Put(bytes, ToFP16(x));
    }
    Put<uint32_t>(bytes, 1);
    PutString(bytes, "decoder/projection/weight");
    PutString(bytes, "decoder/embeddings/weight");
    return bytes;
  }

  void Write(const std::string& folder, const std::string& binary) const {
    io::FileSystem& fs = io::RealFileSystem();
    std::string vocabulary;
    for (const std::string& token : model_.tokens().tokens) vocabulary += token + '\n';
    io::WriteFileAtomically(fs, folder + "/vocabulary.txt", vocabulary);
    io::WriteFileAtomically(fs, folder + "/config.json",
                            R"({"suppress_ids": [3, 7], "suppress_ids_begin": [5]})");
    io::WriteFileAtomically(fs, folder + "/model.bin", binary);
  }

 private:
  const RandomModel& model_;
  std::map<std::string, std::vector<float>> tensors_;
  std::map<std::string, std::vector<uint32_t>> shapes_;
};

std::vector<std::byte> AllOf(const WhisperModel& model, const WhisperTensor& tensor) {
  const int64_t bytes =
      WeightBytes(model.TypeOf(tensor), tensor.rows * tensor.columns, tensor.name);
  std::vector<std::byte> out(static_cast<size_t>(bytes));
  model.Read(tensor, 0, tensor.rows, out);
  return out;
}

void ExpectEqual(const WhisperModel& found, const WhisperModel& expected) {
  EXPECT_EQ(found.tokens().tokens, expected.tokens().tokens);
  EXPECT_EQ(found.tokens().suppressed, expected.tokens().suppressed);
  EXPECT_EQ(found.tokens().suppressed_first, expected.tokens().suppressed_first);
  ASSERT_EQ(found.tensors().size(), expected.tensors().size());
  for (const WhisperTensor& tensor : expected.tensors()) {
    ASSERT_EQ(found.TypeOf(tensor), expected.TypeOf(tensor)) << tensor.name;
    EXPECT_EQ(AllOf(found, tensor), AllOf(expected, tensor)) << tensor.name;
  }
}

class WhisperModelTest : public testing::Test {
 protected:
  io::FileSystem& fs_ = io::RealFileSystem();
  io::TestDirectory directory_;
  const RandomModel model_{TestSpec(), WeightType::kF16};
};

TEST_F(WhisperModelTest, AFolderOfCTranslate2AndItsGguf) {
  const Ct2Writer writer(model_);
  writer.Write(directory_.path(), writer.Binary());
  const auto folder = WhisperModel::Open(directory_.path());
  ExpectEqual(*folder, model_);
  WriteGguf(*folder, std::nullopt, fs_, directory_ / "x.gguf");
  ExpectEqual(*WhisperModel::Open(directory_ / "x.gguf"), model_);
  WriteGguf(*folder, WeightType::kQ8_0, fs_, directory_ / "q.gguf");
  const auto small = WhisperModel::Open(directory_ / "q.gguf");
  for (const WhisperTensor& tensor : small->tensors()) {
    const bool matrix = tensor.kind == WhisperTensor::Kind::kMatrix;
    EXPECT_EQ(small->TypeOf(tensor), matrix ? WeightType::kQ8_0 : model_.TypeOf(tensor));
  }
}

TEST_F(WhisperModelTest, TheVocabularyMayBeJson) {
  const Ct2Writer writer(model_);
  writer.Write(directory_.path(), writer.Binary());
  io::WriteFileAtomically(fs_, directory_ / "vocabulary.json",
                          nlohmann::json(model_.tokens().tokens).dump());
  ExpectEqual(*WhisperModel::Open(directory_.path()), model_);
  for (const char* bad : {"{}", "[1]", "[", "[\"a\"]"}) {
    io::WriteFileAtomically(fs_, directory_ / "vocabulary.json", bad);
    EXPECT_NE(io::MessageOf<UsageError>([&] { WhisperModel::Open(directory_.path()); }), "") << bad;
  }
}

TEST_F(WhisperModelTest, ADamagedFolderIsRefused) {
  const Ct2Writer writer(model_);
  const std::string whole = writer.Binary();
  const auto error_of = [&](const std::string& binary) {
    writer.Write(directory_.path(), binary);
    return io::MessageOf<UsageError>([&] { WhisperModel::Open(directory_.path()); });
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(error_of(""), "model.bin: ");
  for (size_t size = 1; size < whole.size(); size += size < 300 ? 1 : 4999) {
    has(error_of(whole.substr(0, size)), "model.bin: ");
  }
  has(error_of(whole + "x"), "goes on for 1 bytes");
  std::string other = whole;
  other[0] = 99;
  has(error_of(other), "version 4 to 6");
  other = whole;
  std::memcpy(other.data() + 6, "Another", 7);
  has(error_of(other), "not a WhisperSpec");
  other = whole;
  other.replace(other.find("encoder/conv1/bias"), 18, "encoder/conv1/bia_");
  has(error_of(other), "encoder/conv1/bias is missing");
  other = whole;
  other[other.find("encoder/conv1/bias") + 7] = '\n';
  has(error_of(other), "the name of a tensor: is no text of printable ASCII");
  // A shape whose product is 2^64: the extents of the first matrix.
  other = whole;
  const size_t extents = other.find("decoder/embeddings/weight") + 26;
  ASSERT_EQ(other[extents], 2);
  std::memset(other.data() + extents + 1, 0xff, 8);
  has(error_of(other), "decoder/embeddings/weight");
}

TEST_F(WhisperModelTest, SpecialTokensMustBeThere) {
  for (const char* name : {"<|endoftext|>", "<|nospeech|>", "<|0.00|>"}) {
    WhisperTokens tokens = TestTokens();
    *std::ranges::find(tokens.tokens, name) = "x";
    const std::string message = io::MessageOf<UsageError>([&] { Vocabulary(tokens, "file"); });
    EXPECT_NE(message.find("file: the vocabulary has no token <|"), std::string::npos) << message;
  }
}

TEST_F(WhisperModelTest, NumbersOutOfRangeAreRefused) {
  for (const auto& [member, value] : std::vector<std::pair<int64_t WhisperSpec::*, int64_t>>{
           {&WhisperSpec::encoder_heads, 3},
           {&WhisperSpec::hidden, 48},
           {&WhisperSpec::mels, 0},
           {&WhisperSpec::text_positions, 1 << 20},
           {&WhisperSpec::decoder_layers, 1000}}) {
    WhisperSpec spec = TestSpec();
    spec.*member = value;
    EXPECT_THROW(CheckSpec(spec, "x"), UsageError) << value;
  }
  EXPECT_NO_THROW(CheckSpec(TestSpec(), "x"));
}

}  // namespace
}  // namespace thinwire::speech
