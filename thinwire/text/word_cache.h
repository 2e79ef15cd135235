// The tokens of words met before. Most words of a text are among a few thousand.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/text/hash.h"

namespace thinwire::text {

// Direct-mapped, of fixed size: a word that shares another's place replaces it. 4096 entries of 64
// bytes are 256 KiB, which stay in the second-level cache.
class WordCache {
 public:
  static constexpr size_t kMaxBytes = 26;
  static constexpr size_t kMaxIds = 9;

  WordCache() : entries_(kEntries) {}

  static bool MayHold(std::string_view word) { return word.size() <= kMaxBytes; }

  // The tokens of `word`, or nothing (no word has no tokens). MayHold(word).
  std::span<const int32_t> Find(std::string_view word) const {
    const Entry& entry = entries_[HashBytes(word) % kEntries];
    if (entry.bytes != word.size() ||
        std::memcmp(entry.word.data(), word.data(), word.size()) != 0) {
      return {};
    }
    return {entry.ids.data(), entry.count};
  }

  // Keeps them if they are few enough. MayHold(word).
  void Keep(std::string_view word, std::span<const int32_t> ids) {
    if (ids.empty() || ids.size() > kMaxIds) return;
    Entry& entry = entries_[HashBytes(word) % kEntries];
    entry.bytes = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(ids.size());
    std::memcpy(entry.word.data(), word.data(), word.size());
    std::memcpy(entry.ids.data(), ids.data(), ids.size_bytes());
  }

 private:
  static constexpr size_t kEntries = 4096;
  struct alignas(64) Entry {
    uint8_t bytes = 0;
    uint8_t count = 0;
    std::array<char, kMaxBytes> word{};
    std::array<int32_t, kMaxIds> ids{};
  };
  static_assert(sizeof(Entry) == 64);

  std::vector<Entry> entries_;
};

}  // namespace thinwire::text
