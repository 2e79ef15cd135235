// The tokens of a vocabulary by their bytes, as a tree: what begins alike is looked at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/text/vocabulary.h"

namespace thinwire::text {

// Immutable: threads share it.
class TokenTrie {
 public:
  // In the order of a walk from the root: a node comes before those below it.
  struct Node {
    uint32_t end = 0;     // the node behind the last one below this
    uint32_t tokens = 0;  // tokens from here to the next node's begin end with this node's byte
    uint16_t depth = 0;   // bytes before this node's
    uint8_t byte = 0;
  };

  // Tokens that may be text: no control tokens, none without bytes, none that end generation.
  // `vocabulary` must outlive this.
  explicit TokenTrie(const Vocabulary& vocabulary);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::span<const Node> nodes() const { return std::span(nodes_).first(nodes_.size() - 1); }
  // Of node i; several where two tokens have the same bytes.
  std::span<const int32_t> TokensAt(size_t i) const {
    return std::span(tokens_).subspan(nodes_[i].tokens, nodes_[i + 1].tokens - nodes_[i].tokens);
  }
  // Bytes of the longest token.
  size_t depth() const { return depth_; }
  std::span<const int32_t> ends() const { return ends_; }
  // Whether it stands in the tree.
  bool IsText(int32_t token) const;

 private:
  const Vocabulary& vocabulary_;
  std::vector<Node> nodes_;      // and one behind the last
  std::vector<int32_t> tokens_;  // by their bytes
  std::vector<int32_t> ends_;    // that end generation
  size_t depth_ = 0;
};

}  // namespace thinwire::text
