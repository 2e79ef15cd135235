#include "thinwire/text/grammar_automaton.h"

#include <algorithm>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/text/hash.h"

namespace thinwire::text {
namespace {

using Op = Instruction::Op;

constexpr size_t kFirstTable = 256;  // a power of two, as all sizes of tables

uint64_t HashPair(uint32_t a, uint32_t b) { return MixBits(uint64_t{a} << 32 | b); }

}  // namespace

GrammarAutomaton::GrammarAutomaton(std::shared_ptr<const GrammarProgram> program, int64_t most_work)
    : program_(std::move(program)),
      most_work_(most_work),
      seen_(kFirstTable),
      seen_in_(kFirstTable) {
  Reset();
  Begin();
  Enter(program_->start, 0);
  start_ = Finish();
}

void GrammarAutomaton::Reset() {
  stacks_.assign(1, {0, 0});
  stack_table_.assign(kFirstTable, 0);
  ways_.clear();
  states_.assign(1, {});
  state_table_.assign(kFirstTable, kDead);
  next_.assign(program_->classes, kDead);
}

size_t GrammarAutomaton::bytes() const {
  return stacks_.size() * sizeof(Stack) + ways_.size() * sizeof(Way) +
         states_.size() * sizeof(Set) + next_.size() * sizeof(State) +
         (stack_table_.size() + state_table_.size()) * sizeof(uint32_t);
}

void GrammarAutomaton::Work(int64_t amount) {
  work_ += amount;
  if (work_ <= most_work_ && bytes() <= kMostBytes) return;
  throw UsageError("grammar: too many ways to go on; it must be less ambiguous");
}

uint32_t GrammarAutomaton::Push(uint32_t back, uint32_t below) {
  if (2 * stacks_.size() > stack_table_.size()) {
    stack_table_.assign(2 * stack_table_.size(), 0);
    for (uint32_t i = 1; i < stacks_.size(); ++i) {
      size_t slot = HashPair(stacks_[i].back, stacks_[i].below);
      while (stack_table_[slot & (stack_table_.size() - 1)] != 0) ++slot;
      stack_table_[slot & (stack_table_.size() - 1)] = i;
    }
  }
  for (size_t slot = HashPair(back, below);; ++slot) {
    uint32_t& found = stack_table_[slot & (stack_table_.size() - 1)];
    if (found == 0) {
      found = static_cast<uint32_t>(stacks_.size());
      stacks_.push_back({back, below});
      return found;
    }
    if (stacks_[found].back == back && stacks_[found].below == below) return found;
  }
}

bool GrammarAutomaton::SeenBefore(Way way) {
  if (2 * seen_count_ > seen_.size()) {
    std::vector<Way> old(2 * seen_.size());
    std::vector<uint32_t> old_in(old.size());
    old.swap(seen_);
    old_in.swap(seen_in_);
    seen_count_ = 0;
    for (size_t i = 0; i < old.size(); ++i) {
      if (old_in[i] == round_) SeenBefore(old[i]);
    }
  }
  for (size_t slot = HashPair(way.at, way.stack);; ++slot) {
    const size_t i = slot & (seen_.size() - 1);
    if (seen_in_[i] != round_) {
      seen_in_[i] = round_;
      seen_[i] = way;
      ++seen_count_;
      return false;
    }
    if (seen_[i] == way) return true;
  }
}

void GrammarAutomaton::Begin() {
  made_.clear();
  open_.clear();
  complete_ = false;
  seen_count_ = 0;
  if (++round_ == 0) {  // after 2^32 of them
    std::ranges::fill(seen_in_, 0);
    round_ = 1;
  }
}

// Follows everything that takes no byte.
void GrammarAutomaton::Enter(uint32_t at, uint32_t stack) {
  open_.push_back({at, stack});
  constexpr int64_t kChecked = 1024;
  int64_t steps = 0;
  while (!open_.empty()) {
    Way way = open_.back();
    open_.pop_back();
    for (bool goes_on = true; goes_on && !SeenBefore(way); ++steps) {
      // What calls and calls again has as many stacks as there are ways through the calls.
      if (steps % kChecked == 0) Work(steps == 0 ? 1 : kChecked);
      const Instruction& instruction = program_->code[way.at];
      switch (instruction.op) {
        case Op::kRange:
        case Op::kSet:
          made_.push_back(way);
          goes_on = false;
          break;
        case Op::kSplit:
          open_.push_back({instruction.target, way.stack});
          ++way.at;
          break;
        case Op::kCall:
          way = {instruction.target, Push(way.at + 1, way.stack)};
          break;
        case Op::kJump:
        case Op::kGo:
          way.at = instruction.target;
          break;
        case Op::kReturn:
          goes_on = way.stack != 0;
          if (!goes_on) complete_ = true;
          way = {stacks_[way.stack].back, stacks_[way.stack].below};
          break;
      }
    }
  }
}

GrammarAutomaton::State GrammarAutomaton::Finish() {
  if (made_.empty() && !complete_) return kDead;
  std::ranges::sort(made_);
  if (2 * states_.size() > state_table_.size()) {
    std::vector<State> old(2 * state_table_.size(), kDead);
    old.swap(state_table_);
    // The tables of stacks and states grow so rarely that hashing again costs nothing.
    for (State state = 1; state < states(); ++state) {
      uint64_t hash = states_[state].complete ? 1 : 0;
      for (const Way& way : WaysOf(state)) hash = MixBits(hash ^ HashPair(way.at, way.stack));
      while (state_table_[hash & (state_table_.size() - 1)] != kDead) ++hash;
      state_table_[hash & (state_table_.size() - 1)] = state;
    }
  }
  uint64_t hash = complete_ ? 1 : 0;
  for (const Way& way : made_) hash = MixBits(hash ^ HashPair(way.at, way.stack));
  for (;; ++hash) {
    State& found = state_table_[hash & (state_table_.size() - 1)];
    if (found == kDead) {
      found = states();
      states_.push_back({ways_.size(), static_cast<uint32_t>(made_.size()), complete_});
      ways_.insert(ways_.end(), made_.begin(), made_.end());
      next_.resize(next_.size() + program_->classes, kUnknown);
      return found;
    }
    if (states_[found].complete == complete_ && std::ranges::equal(WaysOf(found), made_)) {
      return found;
    }
  }
}

GrammarAutomaton::State GrammarAutomaton::Compute(State state, uint8_t byte) {
  Begin();
  const Set set = states_[state];
  Work(set.size);
  for (size_t i = set.begin; i < set.begin + set.size; ++i) {
    const Way way = ways_[i];
    if (program_->Takes(program_->code[way.at], byte)) Enter(way.at + 1, way.stack);
  }
  const State next = Finish();
  next_[size_t{state} * program_->classes + program_->class_of[byte]] = next;
  return next;
}

GrammarAutomaton::State GrammarAutomaton::Forget(State kept) {
  if (kept == kDead) return kDead;
  const std::vector<Stack> stacks = stacks_;
  const std::vector<Way> ways(WaysOf(kept).begin(), WaysOf(kept).end());
  complete_ = states_[kept].complete;
  Reset();
  // Lower parts lie before what lies on them, so one pass in order finds them moved already.
  std::vector<bool> used(stacks.size());
  for (const Way& way : ways) used[way.stack] = true;
  for (size_t i = stacks.size(); i-- > 1;) {
    if (used[i]) used[stacks[i].below] = true;
  }
  std::vector<uint32_t> moved(stacks.size());
  for (size_t i = 1; i < stacks.size(); ++i) {
    if (used[i]) moved[i] = Push(stacks[i].back, moved[stacks[i].below]);
  }
  made_ = ways;
  for (Way& way : made_) way.stack = moved[way.stack];
  start_ = kDead;
  return Finish();
}

}  // namespace thinwire::text
