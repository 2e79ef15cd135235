// Which tokens may come next in a text that a grammar describes, as it grows token by token.
//
// The grammar runs on bytes, so a token may end anywhere: within a character, a literal, behind
// several parts. For each state that the text comes to, the tree of all tokens is walked once, down
// to where no text goes on; the tokens that were found are kept for the next time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/text/grammar_automaton.h"
#include "thinwire/text/token_trie.h"

namespace thinwire::text {

class TokenMask {
 public:
  // Bytes of states and masks that are kept; beyond, all but the present one are forgotten.
  static constexpr size_t kKept = size_t{1} << 24;

  // For models of `tokens` tokens, which may be more than the vocabulary has. `trie` must outlive
  // this. UsageError as of GrammarAutomaton.
  TokenMask(std::shared_ptr<const GrammarProgram> program, const TokenTrie& trie, int64_t tokens,
            size_t kept = kKept);

  // A bit for each token, bit t % 64 of word t / 64; of those that end generation where the text is
  // complete. Empty where none may come. Holds until the next call. UsageError where the grammar
  // has too many ways to go on.
  std::span<const uint64_t> Allowed();
  // Whether the text may end here.
  bool Complete() const { return automaton_.Complete(state_); }
  // Whether it must end here.
  bool Ended() const { return automaton_.Ended(state_); }
  // The token that came; one that ends generation changes nothing. False: it was not allowed.
  bool Accept(int32_t token);
  // How many of `tokens`, from the first on, could come next.
  int64_t Possible(std::span<const int32_t> tokens);

 private:
  using State = GrammarAutomaton::State;

  // From `state` on; kDead where that cannot be.
  State After(State state, int32_t token);
  void Walk(std::span<uint64_t> mask);
  void MakeRoom();

  GrammarAutomaton automaton_;
  const TokenTrie& trie_;
  const size_t words_;
  const size_t kept_;
  State state_;
  std::vector<State> path_;       // of the walk, by depth
  std::vector<uint64_t> masks_;   // words_ each
  std::vector<int32_t> mask_of_;  // of a state: the number of its mask, or -1
};

}  // namespace thinwire::text
