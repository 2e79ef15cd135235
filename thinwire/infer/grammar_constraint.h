// An answer that is a text of a grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "thinwire/infer/scheduler.h"
#include "thinwire/text/token_mask.h"

namespace thinwire::infer {

class GrammarConstraint : public TokenConstraint {
 public:
  // For a model of `vocabulary` tokens. `trie` must outlive this. UsageError for a grammar that
  // cannot be run, see text::CompileGrammar.
  GrammarConstraint(const text::Grammar& grammar, const text::TokenTrie& trie, int64_t vocabulary);

  std::span<const uint64_t> Allowed() override;
  void Accept(int32_t token) override;
  bool Ended() const override { return mask_.Ended(); }
  int64_t Possible(std::span<const int32_t> tokens) override;

  // Of an answer that ended with Finish::kStuck: why.
  const std::string& problem() const { return problem_; }

 private:
  // What a grammar costs is known only as it runs; it ends this one answer, never a pass.
  template <typename Result, typename Ask>
  Result Try(Result otherwise, const Ask& ask);

  text::TokenMask mask_;
  std::string problem_ = "grammar: no token of the model goes on here";
  bool failed_ = false;
};

}  // namespace thinwire::infer
