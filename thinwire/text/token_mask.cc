#include "thinwire/text/token_mask.h"

#include <algorithm>
#include <utility>

namespace thinwire::text {

TokenMask::TokenMask(std::shared_ptr<const GrammarProgram> program, const TokenTrie& trie,
                     int64_t tokens, size_t kept)
    : automaton_(std::move(program)),
      trie_(trie),
      words_((static_cast<size_t>(tokens) + 63) / 64),
      kept_(kept),
      state_(automaton_.start()),
      path_(trie.depth() + 1) {}

void TokenMask::MakeRoom() {
  if (automaton_.bytes() + masks_.size() * sizeof(uint64_t) <= kept_) return;
  state_ = automaton_.Forget(state_);
  masks_.clear();
  mask_of_.clear();
}

void TokenMask::Walk(std::span<uint64_t> mask) {
  const std::span<const TokenTrie::Node> nodes = trie_.nodes();
  path_[0] = state_;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const State next = automaton_.Next(path_[node.depth], node.byte);
    if (next == GrammarAutomaton::kDead) {
      i = node.end;
      continue;
    }
    path_[node.depth + 1] = next;
    for (const int32_t token : trie_.TokensAt(i)) {
      mask[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
    }
    ++i;
  }
  if (!Complete()) return;
  for (const int32_t token : trie_.ends()) {
    mask[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
  }
}

std::span<const uint64_t> TokenMask::Allowed() {
  MakeRoom();
  if (mask_of_.size() <= state_) mask_of_.resize(state_ + size_t{1}, -1);
  if (mask_of_[state_] < 0) {
    automaton_.Allow();
    const size_t begin = masks_.size();
    masks_.resize(begin + words_);
    try {
      Walk(std::span(masks_).subspan(begin));
    } catch (...) {
      masks_.resize(begin);
      throw;
    }
    mask_of_[state_] = static_cast<int32_t>(begin / words_);
  }
  const auto mask = std::span<const uint64_t>(masks_).subspan(
      static_cast<size_t>(mask_of_[state_]) * words_, words_);
  const bool any = std::ranges::any_of(mask, [](uint64_t word) { return word != 0; });
  return any ? mask : std::span<const uint64_t>();
}

TokenMask::State TokenMask::After(State state, int32_t token) {
  const Vocabulary& vocabulary = trie_.vocabulary();
  if (token < 0 || token >= vocabulary.size() || !trie_.IsText(token)) {
    return GrammarAutomaton::kDead;
  }
  for (const char c : vocabulary.Bytes(token)) {
    state = automaton_.Next(state, static_cast<uint8_t>(c));
  }
  return state;
}

bool TokenMask::Accept(int32_t token) {
  MakeRoom();
  automaton_.Allow();
  if (std::ranges::find(trie_.ends(), token) != trie_.ends().end()) return Complete();
  const State next = After(state_, token);
  if (next == GrammarAutomaton::kDead) return false;
  state_ = next;
  return true;
}

int64_t TokenMask::Possible(std::span<const int32_t> tokens) {
  MakeRoom();
  automaton_.Allow();
  State state = state_;
  for (size_t i = 0; i < tokens.size(); ++i) {
    state = After(state, tokens[i]);
    if (state == GrammarAutomaton::kDead) return static_cast<int64_t>(i);
  }
  return std::ssize(tokens);
}

}  // namespace thinwire::text
