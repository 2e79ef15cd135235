// UTF-8: characters one by one, ill-formed bytes included.
//
// Source: The Unicode Standard, table 3-7 (well-formed sequences) and its practice for U+FFFD: one
// per maximal ill-formed part. Rust's from_utf8_lossy and Python's errors="replace" do the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace thinwire::text {

enum class Utf8State : uint8_t {
  kValid,       // a whole character
  kInvalid,     // bytes that no continuation makes a character
  kIncomplete,  // the beginning of a character, cut off by the end of the text
};

struct Utf8Step {
  uint32_t size = 0;  // bytes, 1 to 4; 0 for an empty text
  Utf8State state = Utf8State::kIncomplete;
};

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// What `text` begins with.
Utf8Step NextUtf8(std::string_view text);

// Bytes of the longest beginning of `text` that is well-formed.
size_t ValidUtf8Prefix(std::string_view text);

// The code point of the character of `size` valid bytes at `text`.
uint32_t CodePoint(std::string_view text, uint32_t size);

void AppendUtf8(uint32_t code_point, std::string* text);

}  // namespace thinwire::text
