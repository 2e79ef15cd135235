#include "thinwire/infer/convert_pre_tokenizer.h"

#include <algorithm>
#include <span>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/text/pre_tokenizer_names.h"

namespace thinwire::infer {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The parts of a pre-tokenizer, normalizer or post-processor: itself, or what its sequence has.
std::vector<JsonView> PartsOf(const JsonView& view, int depth = 0) {
  constexpr int kMostDepth = 8;
  const std::string type = view.FindText("type").value_or("");
  if (type != "Sequence") return {view};
  if (depth == kMostDepth) view.Fail("type", "sequences within sequences, too deep");
  std::vector<JsonView> parts;
  for (const std::string_view key : {"pretokenizers", "normalizers", "processors"}) {
    if (!view.Find(key)) continue;
    size_t i = 0;
    for (const Json& part : view.Array(key)) {
      const JsonView inner(StrCat(view.where(), "[", i++, "]"), part);
      for (const JsonView& found : PartsOf(inner, depth + 1)) parts.push_back(found);
    }
  }
  return parts;
}

std::string ExpressionOf(const JsonView& split) {
  const auto pattern = split.FindObject("pattern");
  if (!pattern || !pattern->Find("Regex")) split.Fail("pattern", "a \"Regex\" expected");
  // Matches are words; what lies between them is one, too, or (with "Removed") there is nothing.
  const bool isolated = split.FindText("behavior") == "Isolated" && !split.Flag("invert", false);
  const bool kept = split.FindText("behavior") == "Removed" && split.Flag("invert", false);
  if (!isolated && !kept) split.Fail("behavior", "is not converted");
  return *pattern->FindText("Regex");
}

std::vector<std::string> Expressions(const JsonView& pre_tokenizer) {
  std::vector<std::string> expressions;
  for (const JsonView& part : PartsOf(pre_tokenizer)) {
    part.RequireText("type", "", {"ByteLevel", "Digits", "Split"});
    const std::string type = *part.FindText("type");
    if (type == "Split") {
      expressions.push_back(ExpressionOf(part));
    } else if (type == "Digits") {
      expressions.push_back(part.Flag("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
    } else {
      if (part.Flag("add_prefix_space", true)) {
        part.Fail("add_prefix_space", "must be false: it is not converted");
      }
      if (part.Flag("use_regex", true)) expressions.emplace_back(kGpt2);
    }
  }
  return expressions;
}

}  // namespace

std::string PreTokenizerNameOf(const JsonView& tokenizer) {
  const auto pre_tokenizer = tokenizer.FindObject("pre_tokenizer");
  if (!pre_tokenizer) tokenizer.Fail("pre_tokenizer", "is missing");
  const std::vector<std::string> expressions = Expressions(*pre_tokenizer);
  const auto model = tokenizer.FindObject("model");
  const bool ignore_merges = model && model->Flag("ignore_merges", false);
  for (const text::PreTokenizerRule& rule : text::PreTokenizerRules()) {
    if (rule.ignore_merges == ignore_merges && std::ranges::equal(rule.expressions, expressions)) {
      return std::string(rule.name);
    }
  }
  std::string shown;
  for (const std::string& expression : expressions) shown += StrCat(" ", expression);
  tokenizer.Fail("pre_tokenizer",
                 StrCat("no name is known for how it splits words; choose one with --pre:", shown));
}

bool HasPart(const JsonView& tokenizer, std::string_view key, std::string_view type,
             const Json** found) {
  const auto view = tokenizer.FindObject(key);
  if (!view) return false;
  for (const JsonView& part : PartsOf(*view)) {
    if (part.FindText("type") != type) continue;
    if (found != nullptr) *found = &part.json();
    return true;
  }
  return false;
}

}  // namespace thinwire::infer
