#include "thinwire/text/token_trie.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace thinwire::text {
namespace {

// What a node's depth can hold; no vocabulary has such a token, but a file may say so.
constexpr size_t kMostDepth = std::numeric_limits<uint16_t>::max();

}  // namespace

bool TokenTrie::IsText(int32_t token) const {
  return vocabulary_.IsPlain(token) && !vocabulary_.EndsGeneration(token) &&
         !vocabulary_.Bytes(token).empty() && vocabulary_.Bytes(token).size() <= kMostDepth;
}

TokenTrie::TokenTrie(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    if (vocabulary.EndsGeneration(token)) ends_.push_back(token);
    if (IsText(token)) tokens_.push_back(token);
  }
  const auto bytes = [&](int32_t token) { return vocabulary.Bytes(token); };
  std::ranges::sort(tokens_, {}, bytes);
  std::vector<uint32_t> path;  // nodes whose last one is not known yet
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
    }
  };
  std::string_view last;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view token = bytes(tokens_[i]);
    const auto common = static_cast<size_t>(std::ranges::mismatch(token, last).in1 - token.begin());
    close(common);
    for (size_t depth = common; depth < token.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({.tokens = static_cast<uint32_t>(i),
                        .depth = static_cast<uint16_t>(depth),
                        .byte = static_cast<uint8_t>(token[depth])});
    }
    depth_ = std::max(depth_, token.size());
    last = token;
  }
  close(0);
  nodes_.push_back({.tokens = static_cast<uint32_t>(tokens_.size())});
}

}  // namespace thinwire::text
