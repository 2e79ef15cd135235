#include "thinwire/io/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "thinwire/base/crc32c.h"
#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/io/fault_file_system.h"
#include "thinwire/io/testing.h"

namespace thinwire::io {
namespace {

// A file with the header `json` and `data_bytes` zeros; `length` overrides the announced length.
std::string FileOf(std::string_view json, size_t data_bytes, uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes.append(json).append(data_bytes, '\0');
}

std::string ErrorOf(const std::string& content) {
  TestDirectory dir;
  const std::string path = dir / "x.safetensors";
  std::ofstream(path, std::ios::binary) << content;
  const std::string message =
      MessageOf<UsageError>([&] { SafetensorsFile(RealFileSystem(), path); });
  if (message == "no error") return message;
  EXPECT_EQ(message.find(path), 0u) << message;  // every error names the file
  return message.substr(std::min(path.size(), message.size()));
}

std::string ErrorOf(std::string_view json, size_t data_bytes) {
  return ErrorOf(FileOf(json, data_bytes, json.size()));
}

std::span<const std::byte> Bytes(const auto& values) { return std::as_bytes(std::span(values)); }

// Written by hand from the format's description: larger elements first, header padded to 8 bytes.
const std::string kGoldenHeader =
    R"({"__metadata__":{"k":"v"},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("a":{"dtype":"U8","shape":[1,3],"data_offsets":[8,11]}}  )";
const std::string kGoldenData("\x00\x00\x80\x3f\x00\x00\x00\xc0\x01\x02\x03", 11);

std::vector<TensorToWrite> GoldenTensors() {
  static const std::vector<uint8_t> a{1, 2, 3};
  static const std::vector<float> b{1.0f, -2.0f};
  return {{"a", TensorType::kU8, {1, 3}, Bytes(a)}, {"b", TensorType::kF32, {2}, Bytes(b)}};
}

TEST(Safetensors, GoldenBytes) {
  TestDirectory dir;
  const WrittenFile written =
      WriteSafetensors(RealFileSystem(), dir / "x", GoldenTensors(), {{"k", "v"}});
  const std::string expected = FileOf(kGoldenHeader, 0, kGoldenHeader.size()) + kGoldenData;
  EXPECT_EQ(kGoldenHeader.size() % 8, 0u);
  EXPECT_EQ(ReadFile(RealFileSystem(), dir / "x", 1000), expected);
  EXPECT_EQ(written.bytes, static_cast<int64_t>(expected.size()));
  EXPECT_EQ(written.crc32c, Crc32c(Bytes(expected)));
}

TEST(Safetensors, ReadsBackEveryTypeByRange) {
  TestDirectory dir;
  const std::string data = "0123456789abcdef01234567";
  std::vector<TensorToWrite> tensors;
  for (int t = 0; t <= static_cast<int>(TensorType::kU64); ++t) {
    const auto type = static_cast<TensorType>(t);
    tensors.push_back({"t" + std::to_string(t),
                       type,
                       {3, 1},
                       Bytes(data).first(static_cast<size_t>(3 * SizeOf(type)))});
  }
  tensors.push_back({"empty", TensorType::kF32, {0, 7}, {}});
  tensors.push_back({"scalar \"\xc3\xa9\"\n", TensorType::kF64, {}, Bytes(data).first(8)});
  WriteSafetensors(RealFileSystem(), dir / "x", tensors, {});

  const SafetensorsFile file(RealFileSystem(), dir / "x");
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const TensorToWrite& expected : tensors) {
    const TensorInfo* info = file.Find(expected.name);
    ASSERT_NE(info, nullptr) << expected.name;
    EXPECT_EQ(info->type, expected.type);
    EXPECT_EQ(info->shape, expected.shape);
    EXPECT_EQ(info->begin % SizeOf(info->type), 0);
    for (size_t from = 0; from < expected.data.size(); from += 3) {
      std::string part(expected.data.size() - from, ' ');
      file.Read(*info, static_cast<int64_t>(from), std::as_writable_bytes(std::span(part)));
      EXPECT_EQ(part, data.substr(from, part.size()));
    }
  }
  EXPECT_EQ(file.Find("none"), nullptr);
  std::string part(5, ' ');
  EXPECT_THROW(file.Read(*file.Find("t11"), 8, std::as_writable_bytes(std::span(part))),
               InternalError);
}

TEST(Safetensors, HeaderLengthOutOfBounds) {
  EXPECT_CONTAINS(ErrorOf(std::string("short")), "5 bytes are too few");
  EXPECT_CONTAINS(ErrorOf(FileOf("{}", 0, 3)), "3 bytes announced, at most 2");
  EXPECT_CONTAINS(ErrorOf(FileOf("{}", 0, ~uint64_t{0})), "18446744073709551615 bytes announced");
  EXPECT_CONTAINS(ErrorOf(FileOf("{}", 0, uint64_t{1} << 63)), "announced");
  EXPECT_CONTAINS(ErrorOf(FileOf("{}", 0, 0)), "must begin with '{'");
  EXPECT_EQ(ErrorOf(FileOf("{}", 0, 2)), "no error");
  EXPECT_EQ(ErrorOf("{}      ", 0), "no error");
}

TEST(Safetensors, HeaderLongerThanAllowed) {
  TestDirectory dir;
  const uint64_t length = kMaxSafetensorsHeader + 1;
  WriteFileAtomically(RealFileSystem(), dir / "x", FileOf("{", 0, length));
  std::filesystem::resize_file(dir / "x", length + 100);  // sparse
  EXPECT_CONTAINS(MessageOf<UsageError>([&] { SafetensorsFile(RealFileSystem(), dir / "x"); }),
                  "at most 100000000 possible");
}

struct Malformed {
  std::string json;
  size_t data_bytes;
  std::string message;
};

std::string Tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}
std::string One(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":)" + Tensor(dtype, shape, offsets) + "}";
}
std::string Two(const std::string& a, const std::string& b) {
  return R"({"a":)" + a + R"(,"b":)" + b + "}";
}

const std::string kF32 = R"("F32")";

TEST(Safetensors, MalformedText) {
  const std::string good = Tensor(kF32, "[1]", "[0,4]");
  const Malformed cases[] = {
      {" {}", 0, "must begin with '{'"},
      {"[]", 0, "must begin with '{'"},
      {"\xef\xbb\xbf{}", 0, "must begin with '{'"},
      {"{", 0, "not valid JSON"},
      {"{}{}", 0, "not valid JSON"},
      {"{} x", 0, "not valid JSON"},
      {std::string("{}\0garbage", 10), 0, "zero byte"},
      {"{\"a\xff\":1}", 0, "not valid JSON"},
      {"{/**/}", 0, "not valid JSON"},
      {R"({"a":1})", 0, R"("a": an object expected, found the number 1)"},
      {R"({"a":null})", 0, "found null"},
      {R"({"a":[]})", 0, "found a list"},
      {R"({"a":"x"})", 0, "found a text"},
      {R"({"a":true})", 0, "found a boolean"},
      {R"({"a":)" + good + R"(,"a":)" + good + "}", 4, R"(the key "a" is used twice)"},
      {R"({"a":)" + good + R"(,"\u0061":)" + good + "}", 4, R"(the key "a" is used twice)"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "used twice"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", 0, "used twice"},
      {R"({"__metadata__":{"a":1}})", 0, R"(__metadata__ "a": a text expected)"},
      {R"({"__metadata__":{"a":{}}})", 0, "a text expected"},
      {R"({"__metadata__":[]})", 0, "an object expected"},
      {R"({"w":{}})", 0, R"(tensor "w": dtype is missing)"},
      {R"({"w":{"dtype":"F32","data_offsets":[0,4]}})", 4, "shape is missing"},
      {R"({"w":{"dtype":"F32","shape":[1]}})", 4, "data_offsets is missing"},
      {R"({"w":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4, "used twice"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":[]}})", 4, "\"x\""},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4, "\"x\""},
      {R"({"w\n":{}})", 0, R"(tensor "w\n": dtype)"},
      {std::string(100'000, '['), 0, "must begin"},
      {R"({"w":{"shape":)" + std::string(100'000, '['), 0, "found a list"},
  };
  for (const Malformed& test : cases) {
    const std::string message = ErrorOf(test.json, test.data_bytes);
    EXPECT_CONTAINS(message, test.message);
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Safetensors, MalformedTensors) {
  const std::string four = Tensor(kF32, "[1]", "[0,4]");
  const Malformed cases[] = {
      {One(R"("F33")", "[1]", "[0,4]"), 4, R"(tensor "w": unknown dtype "F33")"},
      {One("7", "[1]", "[0,4]"), 4, "\"dtype\""},
      {One(kF32, "1", "[0,4]"), 4, "\"shape\""},
      {One(kF32, "[-1]", "[0,4]"), 4, "integers >= 0 expected, found the number -1"},
      {One(kF32, "[-0]", "[0,0]"), 0, "integers >= 0"},
      {One(kF32, "[1.0]", "[0,4]"), 4, "integers >= 0"},
      {One(kF32, "[\"1\"]", "[0,4]"), 4, "integers >= 0"},
      {One(kF32, "[9223372036854775808]", "[0,4]"), 4, "does not fit 63 bits"},
      {One(kF32, "[18446744073709551616]", "[0,4]"), 4, "integers >= 0"},
      // Wraps to 4 elements in 64 bits.
      {One(R"("U8")", "[4194305,4194305,211106198978564]", "[0,4]"), 4, "does not fit 64 bits"},
      {One(kF32, "[4611686018427387904]", "[0,0]"), 0, "does not fit 64 bits"},
      {One(kF32, "[1]", "[0]"), 4, "two numbers expected, found 1"},
      {One(kF32, "[1]", "[]"), 4, "two numbers expected, found 0"},
      {One(kF32, "[1]", "[0,4,8]"), 4, "more than two"},
      {One(kF32, "[1]", "[4,0]"), 4, "takes 4 bytes, but data_offsets are 4 to 0"},
      {One(kF32, "[1]", "[0,-4]"), 4, "integers >= 0"},
      {One(kF32, "[2]", "[0,4]"), 4, "takes 8 bytes"},
      {One(kF32, "[]", "[0,8]"), 8, "takes 4 bytes"},
      {One(kF32, "[1]", "[0,4]"), 8, "take 4 bytes, but 8 follow"},
      {One(kF32, "[1]", "[0,4]"), 3, "take 4 bytes, but 3 follow"},
      {One(kF32, "[1]", "[4,8]"), 8, "(hole)"},
      {"{}", 1, "take 0 bytes, but 1 follow"},
      {Two(four, Tensor(kF32, "[1]", "[8,12]")), 12, "begins at byte 8 of the data where 4"},
      {Two(four, Tensor(kF32, "[1]", "[2,6]")), 8, "(overlap)"},
      {Two(four, four), 4, "(overlap)"},
      {Two(four, Tensor(kF32, "[0]", "[2,2]")), 4, "(overlap)"},
      {Two(four, Tensor(kF32, "[0]", "[9223372036854775807,9223372036854775807]")), 4, "(hole)"},
  };
  for (const Malformed& test : cases) {
    EXPECT_CONTAINS(ErrorOf(test.json, test.data_bytes), test.message);
  }
  EXPECT_EQ(ErrorOf(Two(four, Tensor(kF32, "[0]", "[4,4]")), 4), "no error");
  EXPECT_EQ(ErrorOf(Two(four, Tensor(kF32, "[0]", "[0,0]")), 4), "no error");
}

// Whatever one or two bytes become: a clear UsageError, or a file whose tensors lie inside it.
TEST(Safetensors, FlippedBytesNeverDoHarm) {
  const std::string good = kGoldenHeader;
  const CounterRandom random(11);
  int refused = 0;
  constexpr uint64_t kRounds = 20'000;
  for (uint64_t round = 0; round < kRounds; ++round) {
    std::string text = good;
    for (uint64_t flip = 0; flip <= round % 2; ++flip) {
      const uint64_t bits = random.Bits(2 * round + flip);
      text[(bits >> 8) % text.size()] = static_cast<char>(bits);
    }
    try {
      int64_t end = 0;
      for (const TensorInfo& tensor : ParseSafetensorsHeader(text, 11, "f").tensors) {
        EXPECT_EQ(tensor.begin, end) << text;
        end += tensor.bytes;
      }
      EXPECT_EQ(end, 11) << text;
    } catch (const UsageError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(kRounds / 4));
  EXPECT_LT(refused, static_cast<int>(kRounds));
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string whole = FileOf(kGoldenHeader, 0, kGoldenHeader.size()) + kGoldenData;
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(ErrorOf(whole.substr(0, length)), "no error") << length;
  }
}

TEST(Safetensors, WriterRefusesWhatTheReaderWould) {
  TestDirectory dir;
  const auto error_of = [&](std::vector<TensorToWrite> tensors) {
    return MessageOf<UsageError>(
        [&] { WriteSafetensors(RealFileSystem(), dir / "x", std::move(tensors), {}); });
  };
  const TensorToWrite empty{"a", TensorType::kF32, {0}, {}};
  EXPECT_CONTAINS(error_of({empty, empty}), "already taken");
  EXPECT_CONTAINS(error_of({{"__metadata__", TensorType::kF32, {0}, {}}}), "already taken");
  EXPECT_CONTAINS(error_of({{"a\xff", TensorType::kF32, {0}, {}}}), "UTF-8");
  EXPECT_CONTAINS(error_of({{"a", TensorType::kF32, {INT64_MAX, 2}, {}}}), "does not fit 64 bits");
  EXPECT_TRUE(ListDirectory(RealFileSystem(), dir.path()).empty());
}

TEST(Safetensors, FailingDisksAreIoErrors) {
  TestDirectory dir;
  for (const FileOp op : {FileOp::kOpen, FileOp::kWrite, FileOp::kSync, FileOp::kClose}) {
    FaultFileSystem fs(RealFileSystem(), {.op = op, .error = ENOSPC});
    EXPECT_CONTAINS(
        MessageOf<IoError>([&] { WriteSafetensors(fs, dir / "x", GoldenTensors(), {}); }),
        "No space left on device");
  }
  WriteSafetensors(RealFileSystem(), dir / "x", GoldenTensors(), {});
  for (const FileOp op : {FileOp::kOpen, FileOp::kRead, FileOp::kSize}) {
    FaultFileSystem fs(RealFileSystem(), {.op = op});
    EXPECT_CONTAINS(MessageOf<IoError>([&] { SafetensorsFile(fs, dir / "x"); }), dir / "x");
  }
}

// The reference implementation reads our files and we read its.
TEST(Safetensors, AgreesWithThePythonPackage) {
  if (std::system("python3 -c 'import safetensors.numpy' 2>/dev/null") != 0) {
    GTEST_SKIP() << "python3 has no safetensors package";
  }
  TestDirectory dir;
  WriteSafetensors(RealFileSystem(), dir / "ours", GoldenTensors(), {{"k", "v"}});
  const std::string script =
      "import sys, numpy as n, safetensors.numpy as s\n"
      "d = s.load_file(sys.argv[1])\n"
      "assert d['b'].tolist() == [1.0, -2.0] and d['a'].tolist() == [[1, 2, 3]], d\n"
      "s.save_file(d, sys.argv[2], {'k': 'v'})\n";
  WriteFileAtomically(RealFileSystem(), dir / "check.py", script);
  const std::string command =
      "python3 " + (dir / "check.py") + " " + (dir / "ours") + " " + (dir / "theirs");
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(ReadFile(RealFileSystem(), dir / "theirs", 1000),
            ReadFile(RealFileSystem(), dir / "ours", 1000));
}

}  // namespace
}  // namespace thinwire::io
