// Runs a grammar's program on bytes: all ways at once, each with the calls that it is in.
//
// A state is the set of instructions that may take the next byte, each with its stack. Stacks share
// their lower parts and equal ones are one, so equal sets are one state, and what a byte leads to
// is computed once. States of a recursive grammar are without end: those that were seen are kept as
// far as the memory allows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/text/grammar_program.h"

namespace thinwire::text {

class GrammarAutomaton {
 public:
  using State = uint32_t;
  static constexpr State kDead = 0;

  // Bounds on what one question may cost, beyond which UsageError says that the grammar has too
  // many ways: instructions looked at since Allow, and bytes of states.
  static constexpr int64_t kMostWork = int64_t{1} << 22;
  static constexpr size_t kMostBytes = size_t{1} << 25;

  explicit GrammarAutomaton(std::shared_ptr<const GrammarProgram> program,
                            int64_t most_work = kMostWork);

  // Of the empty text; kDead after Forget.
  State start() const { return start_; }
  // kDead where no text goes on like that.
  State Next(State state, uint8_t byte) {
    const State next = next_[size_t{state} * program_->classes + program_->class_of[byte]];
    return next != kUnknown ? next : Compute(state, byte);
  }
  // Whether the text may end here.
  bool Complete(State state) const { return states_[state].complete; }
  // Whether it must.
  bool Ended(State state) const { return states_[state].complete && states_[state].size == 0; }

  // Begins to count work anew.
  void Allow() { work_ = 0; }
  State states() const { return static_cast<State>(states_.size()); }
  size_t bytes() const;
  // Forgets all other states; the new number of `kept`.
  State Forget(State kept);

 private:
  static constexpr State kUnknown = ~State{0};

  struct Stack {
    uint32_t back;   // where its call returns to
    uint32_t below;  // 0: nothing
  };
  struct Way {
    uint32_t at;  // a kRange or kSet
    uint32_t stack;
    friend auto operator<=>(const Way&, const Way&) = default;
  };
  struct Set {
    size_t begin = 0;  // in ways_
    uint32_t size = 0;
    bool complete = false;
  };

  State Compute(State state, uint8_t byte);
  void Reset();
  void Work(int64_t amount);
  void Begin();
  void Enter(uint32_t at, uint32_t stack);
  State Finish();
  uint32_t Push(uint32_t back, uint32_t below);
  bool SeenBefore(Way way);
  std::span<const Way> WaysOf(State state) const {
    return std::span(ways_).subspan(states_[state].begin, states_[state].size);
  }

  const std::shared_ptr<const GrammarProgram> program_;
  const int64_t most_work_;
  std::vector<Stack> stacks_;
  std::vector<uint32_t> stack_table_;  // open addressing; 0: free
  std::vector<Way> ways_;              // of all states
  std::vector<Set> states_;
  std::vector<State> state_table_;  // the same
  std::vector<State> next_;         // of each state by class of byte
  State start_ = kDead;
  int64_t work_ = 0;

  // Of the state that is being made.
  std::vector<Way> made_, open_;
  bool complete_ = false;
  std::vector<Way> seen_;
  std::vector<uint32_t> seen_in_;  // the round that an entry of seen_ is of
  size_t seen_count_ = 0;
  uint32_t round_ = 0;
};

}  // namespace thinwire::text
