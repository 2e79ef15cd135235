#include "thinwire/text/utf8.h"

#include <gtest/gtest.h>

#include <string>

#include "thinwire/text/byte_level.h"

namespace thinwire::text {
namespace {

std::string Lossy(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    result += step.state == Utf8State::kValid ? text.substr(0, step.size) : kReplacement;
    text.remove_prefix(step.size);
  }
  return result;
}

TEST(Utf8, EveryCodePointComesBack) {
  for (uint32_t code_point = 0; code_point < 0x110000; ++code_point) {
    if (code_point >= 0xD800 && code_point < 0xE000) continue;
    std::string text;
    AppendUtf8(code_point, &text);
    const Utf8Step step = NextUtf8(text + "x");
    ASSERT_EQ(step.state, Utf8State::kValid) << code_point;
    ASSERT_EQ(step.size, text.size());
    ASSERT_EQ(CodePoint(text, step.size), code_point);
    for (size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_EQ(NextUtf8(text.substr(0, cut)).state, Utf8State::kIncomplete) << code_point;
    }
  }
}

// As Python's bytes.decode(errors="replace") does.
TEST(Utf8, OneReplacementPerIllFormedPart) {
  const std::string r(kReplacement);
  EXPECT_EQ(Lossy("a\xFF\xFE b"), "a" + r + r + " b");
  EXPECT_EQ(Lossy("\xE4\xBD"), r);
  EXPECT_EQ(Lossy("\xE4\xBDx"), r + "x");
  EXPECT_EQ(Lossy("\xED\xA0\x80"), r + r + r);  // a surrogate
  EXPECT_EQ(Lossy("\xC0\xAF"), r + r);          // a slash in two bytes
  EXPECT_EQ(Lossy("\xF4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(Lossy("\xF0\x9F\x98"), r);
  EXPECT_EQ(Lossy("\x80\xBF"), r + r);
}

TEST(Utf8, ValidPrefix) {
  EXPECT_EQ(ValidUtf8Prefix(""), 0u);
  EXPECT_EQ(ValidUtf8Prefix("plain ASCII of more than eight bytes"), 36u);
  EXPECT_EQ(ValidUtf8Prefix("12345678é\xFF"), 10u);
  EXPECT_EQ(ValidUtf8Prefix("1234567é12345678\xE4\xBD"), 17u);
}

TEST(ByteLevel, EveryByteComesBack) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    std::string back = "kept";
    EXPECT_TRUE(AppendByteLevel(ByteLevelToken(bytes), &back));
    EXPECT_EQ(back, "kept" + bytes);
  }
  EXPECT_EQ(ByteLevelToken(" \n\xAD"), "ĠĊŃ");
}

TEST(ByteLevel, CharactersOutsideOfTheAlphabetAppendNothing) {
  std::string bytes = "kept";
  for (const char* token : {"a b", "a\n", "｜", "x\xFF", "\u00AD", "\u0144"}) {
    EXPECT_FALSE(AppendByteLevel(token, &bytes)) << token;
    EXPECT_EQ(bytes, "kept");
  }
}

}  // namespace
}  // namespace thinwire::text
