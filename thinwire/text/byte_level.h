// The alphabet in which byte-level vocabularies are written (GPT-2): each byte is one printable
// character. Bytes 21..7E, A1..AC and AE..FF are the characters of that number, the other 68 are
// U+0100 and up, in order: a space is U+0120.
#pragma once

#include <string>
#include <string_view>

namespace thinwire::text {

// Appends the bytes that `token` stands for. False, with nothing appended, where a character is not
// of the alphabet.
bool AppendByteLevel(std::string_view token, std::string* bytes);

// The token that stands for `bytes`.
std::string ByteLevelToken(std::string_view bytes);

}  // namespace thinwire::text
