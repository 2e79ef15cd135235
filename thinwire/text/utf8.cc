#include "thinwire/text/utf8.h"

#include <cstring>

namespace thinwire::text {
namespace {

// Length by the first byte and the range of the second one; of the others it is always 80..BF.
struct Lead {
  uint32_t size;
  unsigned char low, high;
};

Lead LeadOf(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};  // above are surrogates
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Step NextUtf8(std::string_view text) {
  if (text.empty()) return {};
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {1, Utf8State::kValid};
  const Lead lead = LeadOf(byte(0));
  if (lead.size == 0) return {1, Utf8State::kInvalid};
  for (uint32_t i = 1; i < lead.size; ++i) {
    if (i == text.size()) return {i, Utf8State::kIncomplete};
    const unsigned char low = i == 1 ? lead.low : 0x80;
    const unsigned char high = i == 1 ? lead.high : 0xBF;
    if (byte(i) < low || byte(i) > high) return {i, Utf8State::kInvalid};
  }
  return {lead.size, Utf8State::kValid};
}

size_t ValidUtf8Prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight = 0;
    if (text.size() - at >= sizeof eight) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    const Utf8Step step = NextUtf8(text.substr(at));
    if (step.state != Utf8State::kValid) break;
    at += step.size;
  }
  return at;
}

uint32_t CodePoint(std::string_view text, uint32_t size) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (size == 1) return byte(0);
  uint32_t code_point = byte(0) & (0x7Fu >> size);
  for (uint32_t i = 1; i < size; ++i) code_point = code_point << 6 | (byte(i) & 0x3Fu);
  return code_point;
}

void AppendUtf8(uint32_t code_point, std::string* text) {
  const auto put = [&](uint32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

}  // namespace thinwire::text
