#include "thinwire/text/grammar_checks.h"

#include <algorithm>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::text {
namespace {

using Kind = Grammar::Kind;
using Flags = std::vector<bool>;

class Checker {
 public:
  explicit Checker(const Grammar& grammar) : grammar_(grammar), callers_(grammar.rules().size()) {
    for (size_t rule = 0; rule < callers_.size(); ++rule) {
      const Grammar::Node body = grammar.rules()[rule].body;
      THINWIRE_CHECK(body >= 0, grammar.rules()[rule].name);
      AddCalls(body, static_cast<int32_t>(rule));
    }
  }

  void Check() {
    const Flags ends = LeastFixpoint(true);
    for (size_t rule = 0; rule < ends.size(); ++rule) {
      if (!ends[rule]) Fail(rule, "never ends: each of its alternatives leads back to it");
    }
    empty_ = LeastFixpoint(false);
    state_.assign(callers_.size(), State::kNew);
    for (size_t rule = 0; rule < callers_.size(); ++rule) Visit(static_cast<int32_t>(rule));
  }

 private:
  enum class State : uint8_t { kNew, kOpen, kDone };

  [[noreturn]] void Fail(size_t rule, std::string_view what) const {
    throw UsageError(
        StrCat("grammar: the rule \"", Printable(grammar_.rules()[rule].name), "\" ", what));
  }

  void AddCalls(Grammar::Node node, int32_t from) {
    const Grammar::Part& part = grammar_.part(node);
    if (part.kind == Kind::kRule) callers_[static_cast<size_t>(part.index)].push_back(from);
    for (const Grammar::Node each : part.parts) AddCalls(each, from);
  }

  // Whether `node` can be a text (`any`) or the empty text, by what is known of the rules.
  bool Holds(Grammar::Node node, const Flags& rules, bool any) const {
    const Grammar::Part& part = grammar_.part(node);
    const auto holds = [&](Grammar::Node each) { return Holds(each, rules, any); };
    switch (part.kind) {
      case Kind::kLiteral:
        return any;
      case Kind::kCharacters:
        return any && !grammar_.characters(part.index).empty();
      case Kind::kSequence:
        return std::ranges::all_of(part.parts, holds);
      case Kind::kChoice:
        return std::ranges::any_of(part.parts, holds);
      case Kind::kRepeat:
        return part.least == 0 || holds(part.parts[0]);
      case Kind::kRule:
        return rules[static_cast<size_t>(part.index)];
    }
    return false;
  }

  Flags LeastFixpoint(bool any) const {
    Flags rules(callers_.size());
    std::vector<int32_t> open;
    for (size_t rule = callers_.size(); rule-- > 0;) open.push_back(static_cast<int32_t>(rule));
    while (!open.empty()) {
      const auto rule = static_cast<size_t>(open.back());
      open.pop_back();
      if (rules[rule] || !Holds(grammar_.rules()[rule].body, rules, any)) continue;
      rules[rule] = true;
      open.insert(open.end(), callers_[rule].begin(), callers_[rule].end());
    }
    return rules;
  }

  // Rules that a text of `node` may begin with.
  void AddFirst(Grammar::Node node, std::vector<int32_t>& first) const {
    const Grammar::Part& part = grammar_.part(node);
    if (part.kind == Kind::kRule) first.push_back(part.index);
    for (const Grammar::Node each : part.parts) {
      AddFirst(each, first);
      if (part.kind == Kind::kSequence && !Holds(each, empty_, false)) return;
    }
  }

  // Without recursion: chains of rules may be as long as a grammar.
  void Visit(int32_t rule) {
    struct Open {
      int32_t rule;
      std::vector<int32_t> first;
    };
    std::vector<Open> open;
    const auto enter = [&](int32_t entered) {
      State& state = state_[static_cast<size_t>(entered)];
      if (state == State::kOpen) Fail(static_cast<size_t>(entered), "begins with itself");
      if (state == State::kDone) return;
      state = State::kOpen;
      open.push_back({entered, {}});
      AddFirst(grammar_.rules()[static_cast<size_t>(entered)].body, open.back().first);
    };
    enter(rule);
    while (!open.empty()) {
      if (open.back().first.empty()) {
        state_[static_cast<size_t>(open.back().rule)] = State::kDone;
        open.pop_back();
      } else {
        const int32_t next = open.back().first.back();
        open.back().first.pop_back();
        enter(next);
      }
    }
  }

  const Grammar& grammar_;
  std::vector<std::vector<int32_t>> callers_;
  Flags empty_;
  std::vector<State> state_;
};

}  // namespace

void CheckGrammar(const Grammar& grammar) { Checker(grammar).Check(); }

}  // namespace thinwire::text
