// A hash of short strings and of pairs of ids, for tables that live in memory only.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace thinwire::text {

// The finalizer of MurmurHash3: every bit of the input reaches every bit of the result.
inline uint64_t MixBits(uint64_t x) {
  x ^= x >> 33;
  x *= 0xFF51AFD7ED558CCDu;
  x ^= x >> 33;
  x *= 0xC4CEB9FE1A85EC53u;
  return x ^ x >> 33;
}

inline uint64_t HashBytes(std::string_view text) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;
  const char* data = text.data();
  size_t left = text.size();
  uint64_t hash = left * kOdd;
  for (; left > 8; left -= 8, data += 8) {
    uint64_t eight = 0;
    std::memcpy(&eight, data, 8);
    hash = (hash ^ eight) * kOdd;
    hash ^= hash >> 32;
  }
  uint64_t last = 0;
  if (left >= 4) {  // two loads that overlap where fewer than 8 bytes are left
    uint32_t low = 0;
    uint32_t high = 0;
    std::memcpy(&low, data, 4);
    std::memcpy(&high, data + left - 4, 4);
    last = uint64_t{high} << 32 | low;
  } else {
    for (size_t i = 0; i < left; ++i) last = last << 8 | static_cast<unsigned char>(data[i]);
  }
  return MixBits(hash ^ last);
}

}  // namespace thinwire::text
