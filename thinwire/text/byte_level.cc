#include "thinwire/text/byte_level.h"

#include <array>
#include <cstdint>

#include "thinwire/text/utf8.h"

namespace thinwire::text {
namespace {

constexpr uint32_t kFirstMoved = 0x100;
constexpr uint32_t kMoved = 68;

constexpr bool StandsForItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

constexpr std::array<uint8_t, kMoved> kMovedBytes = [] {
  std::array<uint8_t, kMoved> moved{};
  size_t n = 0;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if (!StandsForItself(byte)) moved.at(n++) = static_cast<uint8_t>(byte);
  }
  return moved;
}();

}  // namespace

bool AppendByteLevel(std::string_view token, std::string* bytes) {
  const size_t before = bytes->size();
  for (size_t at = 0; at < token.size();) {
    const auto lead = static_cast<unsigned char>(token[at]);
    if (lead < 0x80 && StandsForItself(lead)) {  // nearly all of a vocabulary
      bytes->push_back(token[at++]);
      continue;
    }
    const Utf8Step step = NextUtf8(token.substr(at));
    uint32_t byte = 256;
    if (step.state == Utf8State::kValid && step.size == 2) {
      const uint32_t code_point = CodePoint(token.substr(at), step.size);
      if (code_point >= kFirstMoved && code_point < kFirstMoved + kMoved) {
        byte = kMovedBytes[code_point - kFirstMoved];
      } else if (code_point < 256 && StandsForItself(code_point)) {
        byte = code_point;
      }
    }
    if (byte == 256) {
      bytes->resize(before);
      return false;
    }
    bytes->push_back(static_cast<char>(byte));
    at += step.size;
  }
  return true;
}

std::string ByteLevelToken(std::string_view bytes) {
  std::string token;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    uint32_t code_point = byte;
    for (uint32_t i = 0; i < kMoved; ++i) {
      if (kMovedBytes[i] == byte) code_point = kFirstMoved + i;
    }
    AppendUtf8(code_point, &token);
  }
  return token;
}

}  // namespace thinwire::text
