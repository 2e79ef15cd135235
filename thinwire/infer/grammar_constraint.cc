#include "thinwire/infer/grammar_constraint.h"

#include "thinwire/base/error.h"

namespace thinwire::infer {

GrammarConstraint::GrammarConstraint(const text::Grammar& grammar, const text::TokenTrie& trie,
                                     int64_t vocabulary)
    : mask_(std::make_shared<text::GrammarProgram>(text::CompileGrammar(grammar)), trie,
            vocabulary) {}

template <typename Result, typename Ask>
Result GrammarConstraint::Try(Result otherwise, const Ask& ask) {
  if (failed_) return otherwise;
  try {
    return ask();
  } catch (const UsageError& error) {
    problem_ = error.what();
    failed_ = true;
    return otherwise;
  }
}

std::span<const uint64_t> GrammarConstraint::Allowed() {
  return Try(std::span<const uint64_t>(), [&] { return mask_.Allowed(); });
}

void GrammarConstraint::Accept(int32_t token) {
  const bool accepted = Try(true, [&] { return mask_.Accept(token); });
  THINWIRE_CHECK(accepted, "token ", token);
}

int64_t GrammarConstraint::Possible(std::span<const int32_t> tokens) {
  return Try(int64_t{0}, [&] { return mask_.Possible(tokens); });
}

}  // namespace thinwire::infer
