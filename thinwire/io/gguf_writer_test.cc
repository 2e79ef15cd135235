#include "thinwire/io/gguf_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "thinwire/base/error.h"
#include "thinwire/io/fault_file_system.h"
#include "thinwire/io/gguf.h"
#include "thinwire/io/gguf_testing.h"
#include "thinwire/io/testing.h"

namespace thinwire::io {
namespace {

std::vector<std::byte> Numbers(size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i);
  return data;
}

std::string Content(const std::string& path) {
  return ReadFile(RealFileSystem(), path, int64_t{1} << 30);
}

// SmallGguf() of gguf_testing.h; data in pieces of `piece` bytes.
void WriteSmall(FileSystem& fs, const std::string& path, size_t piece) {
  GgufWriter writer(fs, path);
  writer.Set<std::string_view>("general.architecture", "llama");
  writer.Set<uint32_t>("llama.block_count", 2);
  writer.SetStrings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "",
                                                                      "\xc4\xa0"
                                                                      "bc"});
  const float scores[] = {0.5f, -1.0f, 2.0f};
  writer.SetArray<float>("tokenizer.ggml.scores", scores);
  writer.Set("flag", true);
  writer.Declare("a.weight", WeightType::kQ8_0, {2, 32});
  writer.Declare("b.bias", WeightType::kF32, {3});
  writer.Begin();
  const std::vector<std::byte> a = Numbers(68);
  for (size_t at = 0; at < a.size(); at += piece) {
    writer.Append("a.weight", std::span(a).subspan(at, std::min(piece, a.size() - at)));
  }
  const float b[] = {1.0f, 2.0f, 3.0f};
  writer.Append("b.bias", std::as_bytes(std::span(b)));
  writer.Finish();
  EXPECT_EQ(writer.bytes() % 32, 0);
}

TEST(GgufWriter, GoldenBytes) {
  TestDirectory dir;
  std::string expected = SmallGguf();
  expected.resize((expected.size() + 31) / 32 * 32);  // other readers want the last padding, too
  for (const size_t piece : {1u, 7u, 68u}) {
    WriteSmall(RealFileSystem(), dir / "x.gguf", piece);
    EXPECT_EQ(Content(dir / "x.gguf"), expected);
  }
  EXPECT_EQ(ListDirectory(RealFileSystem(), dir.path()), std::vector<std::string>{"x.gguf"});
}

TEST(GgufWriter, EveryTypeOfTensorComesBack) {
  TestDirectory dir;
  {
    GgufWriter writer(RealFileSystem(), dir / "x.gguf");
    writer.Set<uint32_t>(kGgufAlignmentKey, 64);
    for (const WeightType type : AllWeightTypes()) {
      writer.Declare(NameOf(type), type, {2, 3, 2 * BlockElements(type)});
    }
    writer.Declare("big", WeightType::kF32, {3 << 18});  // above the writer's buffer
    writer.Declare("one", WeightType::kF16, {});
    writer.Begin();
    for (const WeightType type : AllWeightTypes()) {
      writer.Append(NameOf(type), Numbers(static_cast<size_t>(12 * BlockBytes(type))));
    }
    writer.Append("big", Numbers(3 << 20));
    writer.Append("one", Numbers(2));
    writer.Finish();
  }
  const GgufFile file(dir / "x.gguf");
  EXPECT_EQ(file.alignment(), 64);
  ASSERT_EQ(file.tensors().size(), AllWeightTypes().size() + 2);
  for (const WeightType type : AllWeightTypes()) {
    const GgufTensor& tensor = file.Tensor(NameOf(type), {2, 3, 2 * BlockElements(type)});
    EXPECT_EQ(tensor.type, type);
    const auto expected = Numbers(static_cast<size_t>(12 * BlockBytes(type)));
    EXPECT_TRUE(std::ranges::equal(tensor.data, expected)) << tensor.name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data.data()) % 64, 0u);
  }
  EXPECT_TRUE(std::ranges::equal(file.Tensor("big").data, Numbers(3 << 20)));
  EXPECT_EQ(file.Tensor("one").data.size(), 2u);
}

TEST(GgufWriter, EntriesOfAFileAreCopiedAsTheyAre) {
  TestDirectory dir;
  GgufBytes bytes;
  bytes.Header(0, 6);
  bytes.Key<int64_t>("i64", 11, INT64_MIN).KeyString("s", "\xff\x00z").Key<double>("d", 12, 0.1);
  bytes.KeyArray("empty", 8, 0).KeyArray("strings", 8, 2).String("").String("xy");
  bytes.KeyArray("u16", 2, 3).Put<uint16_t>(1).Put<uint16_t>(2).Put<uint16_t>(3);
  std::ofstream(dir / "a", std::ios::binary) << bytes.str();
  const GgufFile file(dir / "a");
  GgufWriter writer(RealFileSystem(), dir / "b");
  for (const GgufEntry& entry : file.entries()) writer.Add(entry);
  writer.Begin();
  writer.Finish();
  EXPECT_EQ(Content(dir / "b"), bytes.Pad().str());
}

TEST(GgufWriter, RefusesWhatNoReaderTakes) {
  TestDirectory dir;
  const std::string path = dir / "x";
  GgufWriter writer(RealFileSystem(), path);
  const auto error = [&](const auto& call) { return MessageOf<UsageError>(call); };
  writer.Set<uint32_t>("k", 1);
  EXPECT_EQ(error([&] { writer.Set<float>("k", 1); }), path + ": key \"k\": is there already");
  EXPECT_CONTAINS(error([&] { writer.Set("", true); }), "the name is empty");
  EXPECT_CONTAINS(error([&] { writer.Set("a\xff", true); }), "not UTF-8");
  EXPECT_EQ(error([&] { writer.Set<int32_t>(kGgufAlignmentKey, 32); }),
            path + ": key \"general.alignment\": must be a u32");
  GgufWriter other(RealFileSystem(), path);
  EXPECT_CONTAINS(error([&] { other.Set<uint32_t>(kGgufAlignmentKey, 24); }), "found 24");

  writer.Declare("t", WeightType::kF32, {2, 2});
  EXPECT_EQ(error([&] { writer.Declare("t", WeightType::kF32, {2}); }),
            path + ": tensor \"t\": is there already");
  EXPECT_CONTAINS(error([&] { writer.Declare("a\tb", WeightType::kF32, {2}); }), "control");
  EXPECT_EQ(error([&] {
              writer.Declare("u", WeightType::kQ4_K, {3, 576});
            }),
            path + ": tensor \"u\": rows of 576 cannot be Q4_K, which comes in blocks of 256");
  EXPECT_EQ(error([&] {
              writer.Declare("v", WeightType::kF32, {1, 1, 1, 1, 1});
            }),
            path + ": tensor \"v\": 5 extents, at most 4 are written");
  EXPECT_EQ(error([&] {
              writer.Declare("w", WeightType::kF32, {4, 0});
            }),
            path + ": tensor \"w\": an extent of 0");
  EXPECT_CONTAINS(error([&] {
                    writer.Declare("x", WeightType::kF32, {INT64_MAX, 2});
                  }),
                  "tensor \"x\": 9223372036854775807 x 2 does not fit");
  EXPECT_TRUE(ListDirectory(RealFileSystem(), dir.path()).empty());
}

TEST(GgufWriter, DataComesInOrderAndCompletely) {
  TestDirectory dir;
  GgufWriter writer(RealFileSystem(), dir / "x");
  writer.Declare("a", WeightType::kF32, {2});
  writer.Declare("b", WeightType::kF32, {1});
  EXPECT_THROW(writer.Append("a", Numbers(8)), InternalError);
  EXPECT_THROW(writer.Finish(), InternalError);
  writer.Begin();
  EXPECT_THROW(writer.Set("late", true), InternalError);
  EXPECT_THROW(writer.Append("b", Numbers(4)), InternalError);
  EXPECT_THROW(writer.Append("a", Numbers(9)), InternalError);
  writer.Append("a", Numbers(4));
  EXPECT_THROW(writer.Finish(), InternalError);
  writer.Append("a", Numbers(4));
  writer.Append("b", Numbers(4));
  EXPECT_THROW(writer.Append("b", Numbers(1)), InternalError);
  writer.Finish();
  EXPECT_EQ(GgufFile(dir / "x").tensors().size(), 2u);
}

// Whichever call to the system fails: an error, and the file is the old one or the new one.
TEST(GgufWriter, AFailingDiskLeavesAWholeFile) {
  TestDirectory dir;
  const std::string path = dir / "x";
  WriteSmall(RealFileSystem(), dir / "new", 68);
  for (const int error : {EIO, ENOSPC}) {
    int64_t nth = 0;
    for (bool fired = true; fired; ++nth) {
      std::ofstream(path) << "old";
      FaultFileSystem faulty(RealFileSystem(), {.nth = nth, .error = error, .max_transfer = 50});
      const std::string message = MessageOf<IoError>([&] { WriteSmall(faulty, path, 68); });
      fired = faulty.fired();
      const std::string found = Content(path);
      EXPECT_TRUE(found == "old" || found == Content(dir / "new")) << nth;
      EXPECT_FALSE(std::ifstream(path + ".tmp").good()) << nth;
      EXPECT_EQ(message.find("another kind"), std::string::npos) << message;
      if (message == "no error") {
        EXPECT_EQ(found, Content(dir / "new")) << nth;
      }
    }
    EXPECT_GT(nth, 10);
  }
}

TEST(GgufWriter, AFullDiskIsSeenBeforehand) {
  TestDirectory dir;
  GgufWriter writer(RealFileSystem(), dir / "x");
  writer.Declare("huge", WeightType::kF32, {int64_t{1} << 56});
  EXPECT_CONTAINS(MessageOf<IoError>([&] { writer.Begin(); }), "bytes needed");
  EXPECT_TRUE(ListDirectory(RealFileSystem(), dir.path()).empty());
}

}  // namespace
}  // namespace thinwire::io
