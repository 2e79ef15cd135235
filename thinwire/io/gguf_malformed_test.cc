// GGUF files with one thing wrong each: what the error says. Sources: reports against llama.cpp
// (#14595, PR #26690, #25821, #26318) and whisper.cpp (PR #3957).
#include <gtest/gtest.h>

#include "thinwire/base/error.h"
#include "thinwire/io/gguf_parse.h"
#include "thinwire/io/gguf_testing.h"
#include "thinwire/io/testing.h"

namespace thinwire::io {
namespace {

std::string ErrorOf(const std::string& content) {
  // A copy of exactly this size, so that a sanitizer sees a read past its end.
  const std::vector<char> bytes(content.begin(), content.end());
  const std::string message =
      MessageOf<UsageError>([&] { ParseGguf(std::as_bytes(std::span(bytes)), "x.gguf"); });
  if (message == "no error") return message;
  EXPECT_EQ(message.find("x.gguf: "), 0u) << message;
  return message.substr(8);
}
std::string ErrorOf(const GgufBytes& bytes) { return ErrorOf(bytes.str()); }

GgufBytes OneKey() { return GgufBytes().Header(0, 1); }
GgufBytes OneTensor(const std::vector<int64_t>& extents, uint32_t type, uint64_t offset) {
  return GgufBytes().Header(1, 0).Tensor("w", extents, type, offset).Pad().Zeros(256);
}

TEST(GgufMalformed, Header) {
  EXPECT_EQ(ErrorOf(""), "the file is empty, a GGUF file expected");
  EXPECT_EQ(ErrorOf("GG"), "too short for a GGUF file");
  EXPECT_EQ(ErrorOf("GGUF"), "the file ends before the version");
  EXPECT_CONTAINS(ErrorOf("PK\x03\x04 a zip file"), "not a GGUF file");
  EXPECT_CONTAINS(ErrorOf("FUGG and the rest"), "other byte order");
  EXPECT_EQ(ErrorOf(GgufBytes().Header(0, 0, 99)), "GGUF version 99, versions 2 and 3 are read");
  EXPECT_EQ(ErrorOf(GgufBytes().Header(0, 0, 1)), "GGUF version 1, versions 2 and 3 are read");
  EXPECT_EQ(ErrorOf(GgufBytes().Header(0, 0, 0)), "GGUF version 0, versions 2 and 3 are read");
  EXPECT_CONTAINS(ErrorOf(GgufBytes().Header(0, 0, 0x03000000)), "a big-endian GGUF file");
  EXPECT_EQ(ErrorOf(GgufBytes().Header(0, 0)), "no error");
}

TEST(GgufMalformed, Counts) {
  EXPECT_EQ(ErrorOf(GgufBytes().Header(uint64_t{1} << 62, 0)),
            "announces 4611686018427387904 tensors, for which the 8 bytes that follow are too few");
  EXPECT_CONTAINS(ErrorOf(GgufBytes().Header(UINT64_MAX, 0)), "18446744073709551615 tensors");
  EXPECT_CONTAINS(ErrorOf(GgufBytes().Header(0, uint64_t{1} << 61)), "2305843009213693952 keys");
  EXPECT_CONTAINS(ErrorOf(GgufBytes().Header(0, 1 << 20).Zeros(20 << 20)),
                  "at most 65536 are read");
  EXPECT_CONTAINS(ErrorOf(GgufBytes().Header(1 << 20, 0).Zeros(40 << 20)),
                  "at most 262144 are read");
}

TEST(GgufMalformed, Values) {
  const auto key = [](uint32_t type) { return OneKey().String("k").Put(type); };
  EXPECT_EQ(ErrorOf(key(8).Put(uint64_t{1} << 63)),
            "key \"k\": a string of 9223372036854775808 bytes at byte 45, where 0 remain");
  EXPECT_CONTAINS(ErrorOf(key(8).Put(uint64_t{1} << 30).Zeros(9)),
                  "key \"k\": a string of 1073741824");
  EXPECT_EQ(ErrorOf(OneKey().KeyArray("k", 4, 1 << 30).Zeros(9)),
            "key \"k\": an array of 1073741824 u32 at byte 49, where 9 bytes remain");
  EXPECT_CONTAINS(ErrorOf(OneKey().KeyArray("k", 8, uint64_t{1} << 61).Zeros(9)),
                  "key \"k\": an array of 2305843009213693952 string");
  EXPECT_CONTAINS(ErrorOf(OneKey().KeyArray("k", 8, 2).String("a").Put<uint64_t>(1)),
                  "key \"k\": a string of 1 bytes");
  EXPECT_CONTAINS(ErrorOf(OneKey().KeyArray("k", 9, 1).Zeros(20)), "key \"k\": an array of arrays");
  EXPECT_EQ(ErrorOf(OneKey().KeyArray("k", 13, 1).Zeros(20)),
            "key \"k\": unknown type 13 of a value");
  EXPECT_EQ(ErrorOf(key(77).Zeros(8)), "key \"k\": unknown type 77 of a value");
  EXPECT_EQ(ErrorOf(key(7).Put<uint8_t>(2)), "key \"k\": a bool is 0 or 1, found 2");
  EXPECT_EQ(ErrorOf(OneKey().KeyArray("k", 7, 2).Put<uint8_t>(1).Put<uint8_t>(3)),
            "key \"k\": a bool is 0 or 1, found 3");
  EXPECT_CONTAINS(ErrorOf(key(10).Put<uint32_t>(0)), "key \"k\": a value of 8 bytes");
}

TEST(GgufMalformed, Names) {
  const auto named = [](std::string_view name) { return OneKey().Key<uint8_t>(name, 0, 0); };
  EXPECT_EQ(ErrorOf(named("").Zeros(9)), "key 1 of 1: the name is empty");
  EXPECT_EQ(ErrorOf(named("a\nb")), "key 1 of 1: the name has control characters");
  EXPECT_EQ(ErrorOf(named(std::string(65536, 'a'))),
            "key 1 of 1: the name is longer than 65535 bytes");
  EXPECT_EQ(ErrorOf(named(std::string(65535, 'a'))), "no error");
  for (const std::string_view bad :
       {"\x80", "a\xc3", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8"}) {
    EXPECT_EQ(ErrorOf(named(bad).Zeros(1)), "key 1 of 1: the name is not UTF-8");
  }
  EXPECT_EQ(ErrorOf(named("\xc3\xa9\xe2\x82\xac\xf0\x9f\xa6\x99")), "no error");
  EXPECT_CONTAINS(ErrorOf(OneKey().Put(uint64_t{1} << 63).Zeros(9)), "key 1 of 1: a name of");
  EXPECT_EQ(ErrorOf(GgufBytes().Header(0, 2).Key<uint8_t>("a", 0, 0).Key<uint8_t>("a", 0, 1)),
            "key \"a\": is there twice");
  EXPECT_EQ(
      ErrorOf(
          GgufBytes().Header(2, 0).Tensor("t", {8}, 0, 0).Tensor("t", {8}, 0, 32).Pad().Zeros(64)),
      "tensor \"t\": is there twice");
  // A long name is cut in messages, between characters.
  std::string name(99, 'a');
  name +=
      "\xc3\xa9"
      "b";
  EXPECT_EQ(ErrorOf(OneKey().Key<uint8_t>(name, 7, 2)),
            "key \"" + std::string(99, 'a') + "...\": a bool is 0 or 1, found 2");
}

TEST(GgufMalformed, Alignment) {
  const auto aligned = [](uint32_t value) {
    return OneKey().Key<uint32_t>("general.alignment", 4, value);
  };
  for (const uint32_t bad : {0u, 3u, 4u, 48u}) {
    EXPECT_EQ(ErrorOf(aligned(bad)),
              StrCat("key \"general.alignment\": a power of two from 8 on expected, found ", bad));
  }
  EXPECT_EQ(ErrorOf(OneKey().Key<int32_t>("general.alignment", 5, 32)),
            "key \"general.alignment\": u32 expected, found i32");
  EXPECT_EQ(ErrorOf(aligned(8)), "no error");
  EXPECT_EQ(ErrorOf(aligned(uint32_t{1} << 31)), "no error");
}

TEST(GgufMalformed, Shapes) {
  EXPECT_EQ(ErrorOf(OneTensor({1, 1, 1, 1, 1}, 0, 0)),
            "tensor \"w\": 5 extents, at most 4 are read");
  EXPECT_EQ(ErrorOf(GgufBytes().Header(1, 0).String("w").Put(UINT32_MAX).Zeros(64)),
            "tensor \"w\": 4294967295 extents, at most 4 are read");
  EXPECT_EQ(ErrorOf(OneTensor({-1, 2}, 0, 0)), "tensor \"w\": an extent of -1");
  EXPECT_EQ(ErrorOf(OneTensor({2, 0}, 0, 0)), "tensor \"w\": an extent of 0");
  EXPECT_EQ(ErrorOf(OneTensor({(int64_t{1} << 42) + 1, int64_t{1} << 22}, 0, 0)),
            "tensor \"w\": its shape: 4194304 x 4398046511105 does not fit 64 bits");
  EXPECT_EQ(ErrorOf(OneTensor({int64_t{1} << 40, int64_t{1} << 22}, 0, 0)),
            "tensor \"w\": its shape: 4611686018427387904 x 4 does not fit 64 bits");
  EXPECT_EQ(ErrorOf(OneTensor({16, 2}, 2, 0)),
            "tensor \"w\": rows of 16 Q4_0, which come in blocks of 32");
  EXPECT_EQ(ErrorOf(OneTensor({576}, 12, 0)),
            "tensor \"w\": rows of 576 Q4_K, which come in blocks of 256");
  EXPECT_EQ(ErrorOf(OneTensor({}, 0, 0)), "no error");  // one element
}

TEST(GgufMalformed, Types) {
  EXPECT_CONTAINS(
      ErrorOf(OneTensor({32}, 4, 0)),
      "tensor \"w\": type 4 (Q4_2) was removed from GGUF; the types are F32, F16, Q4_0");
  EXPECT_CONTAINS(ErrorOf(OneTensor({32}, 36, 0)), "type 36 (IQ4_NL_4_4) was removed");
  EXPECT_CONTAINS(ErrorOf(OneTensor({256}, 16, 0)),
                  "type 16 (IQ2_XXS) is not read here; the types");
  EXPECT_CONTAINS(ErrorOf(OneTensor({32}, 999, 0)), "tensor \"w\": type 999 is unknown; the types");
}

TEST(GgufMalformed, Places) {
  EXPECT_EQ(ErrorOf(OneTensor({32}, 0, 128)), "no error");
  EXPECT_EQ(ErrorOf(OneTensor({32}, 0, 160)),
            "tensor \"w\": 128 bytes at 160 of the data, of which the file has 256; it is cut off "
            "or malformed");
  EXPECT_EQ(ErrorOf(OneTensor({32}, 0, 8)),
            "tensor \"w\": offset 8 is no multiple of the alignment 32");
  EXPECT_CONTAINS(ErrorOf(OneTensor({32}, 0, UINT64_MAX - 31)), "bytes at 18446744073709551584 of");
  EXPECT_CONTAINS(ErrorOf(OneTensor({1 << 20}, 0, 0)), "4194304 bytes at 0 of the data");
  EXPECT_EQ(ErrorOf(GgufBytes()
                        .Header(2, 0)
                        .Tensor("late", {16}, 0, 32)
                        .Tensor("early", {16}, 0, 0)
                        .Pad()
                        .Zeros(96)),
            "tensor \"late\": overlaps with tensor \"early\"");
  // Sums past 2^64: each fits on its own, and none is in the file.
  GgufBytes many;
  many.Header(4, 0);
  for (const char* name : {"a", "b", "c", "d"}) {
    many.Tensor(name, {int64_t{1} << 60}, 0, 0);
  }
  EXPECT_CONTAINS(ErrorOf(many.Pad().Zeros(64)), "of the data, of which the file has 64");
}

TEST(GgufMalformed, CutOffAnywhere) {
  const std::string whole = SmallGguf();
  ASSERT_EQ(ErrorOf(whole), "no error");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(ErrorOf(whole.substr(0, size)), "no error") << size;
  }
}

// Whatever a bit flips, the file is read or refused with a UsageError.
TEST(GgufMalformed, AnyBitFlipped) {
  const std::string whole = SmallGguf();
  int refused = 0;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    const std::string error = ErrorOf(changed);
    EXPECT_EQ(error.find("another kind"), std::string::npos) << error;
    refused += error != "no error";
  }
  EXPECT_GT(refused, 1000);
}

// Eight bytes anywhere replaced by what lengths and counts break at.
TEST(GgufMalformed, AnyWordReplaced) {
  const std::string whole = SmallGguf();
  const uint64_t words[] = {0, 1, UINT64_MAX, uint64_t{1} << 63, uint64_t{1} << 32, 0x7fffffff};
  for (size_t at = 0; at + 8 <= whole.size(); ++at) {
    for (const uint64_t word : words) {
      std::string changed = whole;
      std::memcpy(changed.data() + at, &word, sizeof word);
      const std::string error = ErrorOf(changed);
      EXPECT_EQ(error.find("another kind"), std::string::npos) << error;
    }
  }
}

}  // namespace
}  // namespace thinwire::io
