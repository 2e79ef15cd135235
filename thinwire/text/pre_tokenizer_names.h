// The expressions that split a text into words before byte-level merging, by the names that GGUF
// files give them (tokenizer.ggml.pre).
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace thinwire::text {

struct PreTokenizerRule {
  std::string_view name;
  // Applied in turn: each splits what the ones before it left into its matches and what lies
  // between them.
  std::span<const std::string_view> expressions;
  bool ignore_merges = false;  // a word that is a token needs no merges
  bool add_bos = false;        // where the file does not say whether to
};

// UsageError for a name that is not known, with the names most like it.
const PreTokenizerRule& FindPreTokenizer(std::string_view name);

std::span<const PreTokenizerRule> PreTokenizerRules();

}  // namespace thinwire::text
