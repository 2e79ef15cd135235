// Which tokens a text begins with.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/text/vocabulary.h"

namespace thinwire::text {

class PrefixIndex {
 public:
  // `ids` are tokens of at least one byte. `vocabulary` must outlive this.
  PrefixIndex(const Vocabulary& vocabulary, std::vector<int32_t> ids);

  std::span<const int32_t> ids() const { return sorted_; }

  // Calls f(id, bytes) for each token that `text` begins with, the shortest first.
  //
  // Narrows the sorted tokens, byte by byte, to those that agree with the text: as many steps as
  // the longest that agrees has bytes, each a binary search, however many tokens there are.
  template <typename F>
  void ForEach(std::string_view text, F&& f) const {
    if (text.empty()) return;
    auto low = sorted_.begin() + first_[ByteAt(text, 0)];
    auto high = sorted_.begin() + first_[ByteAt(text, 0) + size_t{1}];
    for (size_t depth = 1; low != high; ++depth) {
      for (; low != high && vocabulary_.Bytes(*low).size() == depth; ++low) f(*low, depth);
      if (depth == text.size()) return;
      const auto byte = [&](int32_t id) { return ByteAt(vocabulary_.Bytes(id), depth); };
      const auto same = std::ranges::equal_range(low, high, ByteAt(text, depth), {}, byte);
      low = same.begin();
      high = same.end();
    }
  }

 private:
  static unsigned char ByteAt(std::string_view text, size_t at) {
    return static_cast<unsigned char>(text[at]);
  }

  const Vocabulary& vocabulary_;
  std::vector<int32_t> sorted_;      // by bytes, then by id
  std::array<uint32_t, 257> first_;  // of `sorted_`, those that begin with each byte
};

}  // namespace thinwire::text
