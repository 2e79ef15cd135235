// How SentencePiece writes spaces: U+2581 stands for one, in vocabularies and in texts.
//
// thinwire keeps such vocabularies with plain spaces, so a text is looked up as it is, but for a
// U+2581 that it contains itself: that one counts as a space, as it does there.
#pragma once

#include <string>
#include <string_view>

namespace thinwire::text {

constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";

inline void AppendUnescaped(std::string_view text, std::string* plain) {
  for (size_t at = text.find(kEscapedSpace); at != std::string_view::npos;
       at = text.find(kEscapedSpace)) {
    plain->append(text.substr(0, at)).push_back(' ');
    text.remove_prefix(at + kEscapedSpace.size());
  }
  plain->append(text);
}

}  // namespace thinwire::text
