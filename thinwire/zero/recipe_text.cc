// Recipes as people write them: the one place that reads them.
#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/base/nearest.h"
#include "thinwire/codec/block.h"
#include "thinwire/codec/by_name.h"
#include "thinwire/zero/recipe.h"

namespace thinwire::zero {
namespace {

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(Trim(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text = text.substr(at + 1);
  }
}

// One suggestion where a name is near, else all there are.
std::string InsteadOf(std::string_view name, std::span<const std::string> known) {
  const std::string suggestion = DidYouMean(name, known);
  if (!suggestion.empty()) return suggestion;
  std::string all;
  for (const std::string& each : known) all += (all.empty() ? ": choose one of " : ", ") + each;
  return all;
}

Recipe Plain(std::string_view name, DType wire) {
  const CodecPtr raw = RawCodec(wire);
  return {.name = std::string(name),
          .kept = Kept::kNothing,
          .slow_gather = raw,
          .fast_gather = raw,
          .fast_reduce = raw,
          .slow_reduce = raw,
          .vectors = raw};
}

constexpr std::string_view kCoded = "+coded";

// "zero++" of "zero+++coded", "zero++ + coded"; anything else as it is.
std::string_view WithoutCoded(std::string_view name) {
  const size_t plus = name.rfind('+');
  if (plus == std::string_view::npos || Trim(name.substr(plus + 1)) != "coded") return name;
  return Trim(name.substr(0, plus));
}

// The parts of a name that is a sum, in one order.
std::vector<std::string_view> PartsOf(std::string_view name) {
  std::vector<std::string_view> parts = SplitAt(name == "zero++" ? "qwz+hpz+qgz" : name, '+');
  std::ranges::sort(parts);
  return parts;
}

class RecipeReader {
 public:
  RecipeReader(std::string_view text, DType wire, std::string_view setting)
      : text_(text), wire_(wire), setting_(setting) {}

  Recipe Read() const {
    return text_.find('=') == std::string_view::npos ? ByName(text_) : ByHops(text_);
  }

 private:
  Recipe ByName(std::string_view name) const;
  Recipe Coded(Recipe recipe) const;
  Recipe ByHops(std::string_view text) const;
  void SetHop(Recipe& recipe, std::string_view hop, std::string_view value) const;
  void SetKept(Recipe& recipe, std::string_view value) const;
  void SetFeedback(Recipe& recipe, std::string_view value) const;
  void SetReduce(Recipe& recipe, std::string_view hop, std::string_view value,
                 CodecPtr& codec) const;
  void CheckReduces(const Recipe& recipe, std::span<const std::string_view> rotated) const;
  void CheckKept(const Recipe& recipe) const;

  CodecPtr CodecOf(std::string_view hop, std::string_view value) const {
    return codec::ByName(value, StrCat(setting_, ", ", hop));
  }
  [[noreturn]] void Refuse(std::string_view why_and_what_to_do) const {
    throw UsageError(StrCat(setting_, " = \"", text_, "\" ", why_and_what_to_do));
  }

  std::string_view text_;
  DType wire_;
  std::string_view setting_;
};

Recipe RecipeReader::ByName(std::string_view name) const {
  if (const std::string_view base = WithoutCoded(name); base != name) {
    if (WithoutCoded(base) != base) Refuse(StrCat("says ", kCoded, " twice: leave one out"));
    return Coded(ByName(base));
  }
  const std::vector<std::string_view> parts = PartsOf(name);
  for (const NamedRecipe& known : kNamedRecipes) {
    if (PartsOf(known.name) == parts) return ByHops(known.hops);
  }
  const std::vector<std::string> names = RecipeNames();
  const auto twice = std::ranges::adjacent_find(parts);
  if (twice != parts.end() && std::ranges::find(names, *twice) != names.end()) {
    Refuse(StrCat("names ", *twice, " twice: leave one out"));
  }
  const std::string instead = InsteadOf(name, names);
  Refuse(
      StrCat("is not known", instead,
             instead.starts_with(';') ? "" : ", or name the codecs of the hops (docs/recipes.md)"));
}

// The same with messages of codes entropy-coded on the slow hops.
Recipe RecipeReader::Coded(Recipe recipe) const {
  bool any = false;
  for (CodecPtr* slow : {&recipe.slow_gather, &recipe.slow_reduce}) {
    if (IsRaw(**slow)) continue;
    *slow = codec::ByName(StrCat((*slow)->name(), "/coded"), setting_);
    any = true;
  }
  if (!any) {
    Refuse(
        StrCat("has nothing to entropy-code: its slow hops send numbers as they are, so leave "
               "out ",
               kCoded));
  }
  return recipe;
}

Recipe RecipeReader::ByHops(std::string_view text) const {
  Recipe recipe = Plain(text_, wire_);
  if (text.empty()) return recipe;
  std::vector<std::string_view> seen, rotated;
  for (const std::string_view entry : SplitAt(text, ',')) {
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos)
      Refuse(StrCat("has \"", entry, "\" where hop=codec or keep=... was expected"));
    const std::string_view hop = Trim(entry.substr(0, equals));
    if (std::ranges::find(seen, hop) != seen.end())
      Refuse(StrCat("names ", hop, " twice: leave one out"));
    seen.push_back(hop);
    const std::string_view value = Trim(entry.substr(equals + 1));
    SetHop(recipe, hop, value);
    if (value.starts_with("rot")) rotated.push_back(hop);
  }
  CheckReduces(recipe, rotated);
  CheckKept(recipe);
  return recipe;
}

void RecipeReader::SetHop(Recipe& recipe, std::string_view hop, std::string_view value) const {
  if (hop == "feedback") return SetFeedback(recipe, value);
  if (hop == "keep") return SetKept(recipe, value);
  CodecPtr* codec = hop == "slow_gather"   ? &recipe.slow_gather
                    : hop == "fast_gather" ? &recipe.fast_gather
                    : hop == "fast_reduce" ? &recipe.fast_reduce
                    : hop == "slow_reduce" ? &recipe.slow_reduce
                                           : nullptr;
  if (codec == nullptr) {
    std::vector<std::string> known;
    for (const HopChoice& each : HopsOf(recipe)) known.emplace_back(each.hop);
    Refuse(StrCat("names \"", hop, "\", which is no hop", InsteadOf(hop, known)));
  }
  if (value == "codes") {
    if (hop != "fast_gather") {
      Refuse(StrCat("has codes on ", hop, ", but only fast_gather can pass codes on: name a codec ",
                    "there, like int8/128"));
    }
    *codec = nullptr;
  } else if (hop.ends_with("reduce")) {
    SetReduce(recipe, hop, value, *codec);
  } else {
    *codec = CodecOf(hop, value);
  }
}

void RecipeReader::SetKept(Recipe& recipe, std::string_view value) const {
  const auto kept = std::ranges::find(kKeptNames, value, &std::pair<std::string_view, Kept>::first);
  if (kept == std::end(kKeptNames))
    Refuse(StrCat("keeps \"", value, "\": choose nothing, values, codes or reference"));
  recipe.kept = kept->second;
}

void RecipeReader::SetFeedback(Recipe& recipe, std::string_view value) const {
  if (value == "nothing") {
    recipe.feedback = nullptr;
    return;
  }
  recipe.feedback = CodecOf("feedback", value);
  if (value.starts_with("int8/") && recipe.feedback->coder() == nullptr) return;
  Refuse(StrCat("has feedback in ", value, ": choose nothing or int8 like int8/128"));
}

// Where one reduce is rotated, the other is, too, unless it sends numbers as they are.
void RecipeReader::SetReduce(Recipe& recipe, std::string_view hop, std::string_view value,
                             CodecPtr& codec) const {
  std::string_view plain = value;
  const int64_t rotation = codec::TakeRotation(plain);
  codec = CodecOf(hop, plain);
  if (rotation == 0) return;
  if (IsRaw(*codec)) {
    Refuse(StrCat("rotates ", plain, " on ", hop, ", which gains nothing: leave out ",
                  codec::RotationPrefix(rotation)));
  }
  if (recipe.rotation != 0 && recipe.rotation != rotation) {
    Refuse(
        "rotates by 32 on one reduce and by 128 on the other: gradients stay rotated between them, "
        "so choose one");
  }
  recipe.rotation = rotation;
}

void RecipeReader::CheckReduces(const Recipe& recipe,
                                std::span<const std::string_view> rotated) const {
  for (const auto& [hop, codec] : {std::pair(std::string_view("fast_reduce"), recipe.fast_reduce),
                                   {std::string_view("slow_reduce"), recipe.slow_reduce}}) {
    if (recipe.rotation == 0 || IsRaw(*codec)) continue;
    if (std::ranges::find(rotated, hop) != rotated.end()) continue;
    const std::string name(codec->name());
    Refuse(StrCat("rotates one reduce, but not ", hop, "=", name,
                  ": gradients stay rotated between them, so write ",
                  codec::RotationPrefix(recipe.rotation), name));
  }
  if (recipe.feedback != nullptr && IsRaw(*recipe.slow_reduce)) {
    Refuse(StrCat("has feedback, but its slow reduce in ", recipe.slow_reduce->name(),
                  " owes nothing: leave out feedback"));
  }
}

void RecipeReader::CheckKept(const Recipe& recipe) const {
  if (recipe.kept == Kept::kCodes && !recipe.forwards_codes())
    Refuse("keeps codes but does not pass them on: set fast_gather=codes");
  if (recipe.kept == Kept::kValues && recipe.forwards_codes())
    Refuse("keeps values, so there are no codes to pass on: set keep=codes");
  if (recipe.kept != Kept::kReference) return;
  if (recipe.forwards_codes()) {
    Refuse(
        "keeps a reference, so the slow gather brings differences, which are of no use to the "
        "other ranks of a host: set fast_gather to a codec");
  }
  if (IsRaw(*recipe.slow_gather)) {
    Refuse(StrCat("keeps a reference for differences in ", recipe.slow_gather->name(),
                  ", which gain nothing: set slow_gather to a code like int4/2048, or "
                  "keep=values"));
  }
}

// The name that its codecs have, or else the hops that zero3 has otherwise.
std::string CanonicalName(const Recipe& recipe, DType wire) {
  const std::vector<HopChoice> hops = HopsOf(recipe);
  for (const NamedRecipe& each : kNamedRecipes) {
    const std::string name(each.name);
    const Recipe known = RecipeReader(name, wire, name).Read();
    if (HopsOf(known) == hops) return name;
    if (IsRaw(*known.slow_gather) && IsRaw(*known.slow_reduce)) continue;
    const std::string coded = StrCat(name, kCoded);
    if (HopsOf(RecipeReader(coded, wire, coded).Read()) == hops) return coded;
  }
  const std::vector<HopChoice> plain = HopsOf(Plain("", wire));
  std::string list;
  for (size_t h = 0; h < hops.size(); ++h) {
    if (hops[h] == plain[h]) continue;
    list += StrCat(list.empty() ? "" : ", ", hops[h].hop, "=", hops[h].choice);
  }
  return list;
}

}  // namespace

Recipe MakeRecipe(std::string_view name, DType wire, std::string_view setting) {
  Recipe recipe = RecipeReader(Trim(name), wire, setting).Read();
  recipe.name = CanonicalName(recipe, wire);
  return recipe;
}

}  // namespace thinwire::zero
