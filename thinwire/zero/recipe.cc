#include "thinwire/zero/recipe.h"

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/base/nearest.h"
#include "thinwire/codec/block.h"
#include "thinwire/codec/by_name.h"

namespace thinwire::zero {
namespace {

constexpr std::string_view kSetting = "parallel.recipe";

Recipe Plain(std::string_view name, DType wire) {
  const CodecPtr raw = codec::ByName(NameOf(wire), kSetting);
  return {.name = std::string(name),
          .kept = Kept::kNothing,
          .slow_gather = raw,
          .fast_gather = raw,
          .fast_reduce = raw,
          .slow_reduce = raw,
          .vectors = raw};
}

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

[[noreturn]] void Refuse(std::string_view name, std::string_view why_and_what_to_do) {
  throw UsageError(StrCat(kSetting, " = \"", name, "\" ", why_and_what_to_do));
}

// One suggestion where a name is near, else all there are.
std::string InsteadOf(std::string_view name, std::span<const std::string> known) {
  const std::string suggestion = DidYouMean(name, known);
  if (!suggestion.empty()) return suggestion;
  std::string all;
  for (const std::string& each : known) all += (all.empty() ? ": choose one of " : ", ") + each;
  return all;
}

// Of recipes that send differences, hop by hop. Adam's updates have no heavy tail, so that long
// blocks suffice for int4; gradients have, so they are rotated.
constexpr std::pair<std::string_view, std::string_view> kDifferences[] = {
    {"delta4",
     "slow_gather=int4/2048/max0.75, fast_reduce=rot128+int8/128, slow_reduce=rot128+int4/128, "
     "keep=reference"},
    {"delta-ternary",
     "slow_gather=ternary/128, fast_reduce=rot128+int8/128, slow_reduce=rot128+int4/128, "
     "keep=reference"},
    {"ternary",
     "slow_gather=ternary/128, fast_reduce=rot128+int8/128, "
     "slow_reduce=rot128+ternary/128/rms1.22, keep=reference"}};

Recipe ByParts(std::string_view name, DType wire) {
  Recipe recipe = Plain(name, wire);
  bool qwz = false, hpz = false, qgz = false;
  for (const std::string_view part : SplitAt(name == "zero++" ? "qwz+hpz+qgz" : name, '+')) {
    bool* flag = part == "qwz" ? &qwz : part == "hpz" ? &hpz : part == "qgz" ? &qgz : nullptr;
    if (flag == nullptr) {
      const std::string instead = InsteadOf(name, RecipeNames());
      Refuse(name, StrCat("is not known", instead,
                          instead.starts_with(';')
                              ? ""
                              : ", or name the codecs of the hops (docs/recipes.md)"));
    }
    if (*flag) Refuse(name, StrCat("names ", part, " twice: leave one out"));
    *flag = true;
  }
  if (qwz) {
    recipe.slow_gather = codec::BlockInt8(kRecipeBlock);
    recipe.fast_gather = nullptr;
  }
  if (hpz) recipe.kept = qwz ? Kept::kCodes : Kept::kValues;
  if (qgz) recipe.fast_reduce = recipe.slow_reduce = codec::BlockInt4(kRecipeBlock);
  return recipe;
}

constexpr std::pair<std::string_view, Kept> kKept[] = {{"nothing", Kept::kNothing},
                                                       {"values", Kept::kValues},
                                                       {"codes", Kept::kCodes},
                                                       {"reference", Kept::kReference}};

// The codec of a reduce. Where one is rotated, the other is, too, unless it sends numbers as they
// are.
void SetReduce(Recipe& recipe, std::string_view hop, std::string_view value, CodecPtr& codec) {
  std::string_view plain = value;
  const int64_t rotation = codec::TakeRotation(plain);
  codec = codec::ByName(plain, StrCat(kSetting, ", ", hop));
  if (rotation == 0) return;
  if (IsRaw(*codec)) {
    Refuse(recipe.name, StrCat("rotates ", plain, " on ", hop, ", which gains nothing: leave out ",
                               codec::RotationPrefix(rotation)));
  }
  if (recipe.rotation != 0 && recipe.rotation != rotation) {
    Refuse(recipe.name,
           "rotates by 32 on one reduce and by 128 on the other: gradients stay "
           "rotated between them, so choose one");
  }
  recipe.rotation = rotation;
}

void SetFeedback(Recipe& recipe, std::string_view value) {
  if (value == "nothing") {
    recipe.feedback = nullptr;
    return;
  }
  recipe.feedback = codec::ByName(value, StrCat(kSetting, ", feedback"));
  if (value.starts_with("int8/") && recipe.feedback->coder() == nullptr) return;
  Refuse(recipe.name, StrCat("has feedback in ", value, ": choose nothing or int8 like int8/128"));
}

void SetHop(Recipe& recipe, std::string_view hop, std::string_view value) {
  if (hop == "feedback") return SetFeedback(recipe, value);
  if (hop == "keep") {
    const auto kept = std::ranges::find(kKept, value, &std::pair<std::string_view, Kept>::first);
    if (kept == std::end(kKept)) {
      Refuse(recipe.name,
             StrCat("keeps \"", value, "\": choose nothing, values, codes or reference"));
    }
    recipe.kept = kept->second;
    return;
  }
  CodecPtr* codec = hop == "slow_gather"   ? &recipe.slow_gather
                    : hop == "fast_gather" ? &recipe.fast_gather
                    : hop == "fast_reduce" ? &recipe.fast_reduce
                    : hop == "slow_reduce" ? &recipe.slow_reduce
                                           : nullptr;
  if (codec == nullptr) {
    const std::vector<std::string> known = {"slow_gather", "fast_gather", "fast_reduce",
                                            "slow_reduce", "keep",        "feedback"};
    Refuse(recipe.name, StrCat("names \"", hop, "\", which is no hop", InsteadOf(hop, known)));
  }
  if (value == "codes") {
    if (hop != "fast_gather") {
      Refuse(recipe.name, StrCat("has codes on ", hop, ", but only fast_gather can pass codes on: ",
                                 "name a codec there, like int8/128"));
    }
    *codec = nullptr;
  } else if (hop.ends_with("reduce")) {
    SetReduce(recipe, hop, value, *codec);
  } else {
    *codec = codec::ByName(value, StrCat(kSetting, ", ", hop));
  }
}

void CheckRotation(const Recipe& recipe, std::span<const std::string_view> rotated) {
  if (recipe.rotation == 0) return;
  for (const auto& [hop, codec] : {std::pair(std::string_view("fast_reduce"), recipe.fast_reduce),
                                   {std::string_view("slow_reduce"), recipe.slow_reduce}}) {
    if (IsRaw(*codec) || std::ranges::find(rotated, hop) != rotated.end()) continue;
    const std::string name(codec->name());
    Refuse(recipe.name, StrCat("rotates one reduce, but not ", hop, "=", name,
                               ": gradients stay rotated between them, so write ",
                               codec::RotationPrefix(recipe.rotation), name));
  }
}

void CheckKept(const Recipe& recipe) {
  if (recipe.kept == Kept::kCodes && !recipe.forwards_codes()) {
    Refuse(recipe.name, "keeps codes but does not pass them on: set fast_gather=codes");
  }
  if (recipe.kept == Kept::kValues && recipe.forwards_codes()) {
    Refuse(recipe.name, "keeps values, so there are no codes to pass on: set keep=codes");
  }
  if (recipe.kept != Kept::kReference) return;
  if (recipe.forwards_codes()) {
    Refuse(recipe.name,
           "keeps a reference, so the slow gather brings differences, which are of no use to the "
           "other ranks of a host: set fast_gather to a codec");
  }
  if (IsRaw(*recipe.slow_gather)) {
    Refuse(recipe.name, StrCat("keeps a reference for differences in ", recipe.slow_gather->name(),
                               ", which gain nothing: set slow_gather to a code like int4/2048, "
                               "or keep=values"));
  }
}

Recipe ByHops(std::string_view text, DType wire) {
  Recipe recipe = Plain(text, wire);
  std::vector<std::string_view> seen, rotated;
  for (const std::string_view entry : SplitAt(text, ',')) {
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos)
      Refuse(text, StrCat("has \"", entry, "\" where hop=codec or keep=... was expected"));
    const std::string_view hop = Trim(entry.substr(0, equals));
    if (std::ranges::find(seen, hop) != seen.end())
      Refuse(text, StrCat("names ", hop, " twice: leave one out"));
    seen.push_back(hop);
    const std::string_view value = Trim(entry.substr(equals + 1));
    SetHop(recipe, hop, value);
    if (value.starts_with("rot")) rotated.push_back(hop);
  }
  CheckRotation(recipe, rotated);
  if (recipe.feedback != nullptr && IsRaw(*recipe.slow_reduce)) {
    Refuse(recipe.name, StrCat("has feedback, but its slow reduce in ", recipe.slow_reduce->name(),
                               " owes nothing: leave out feedback"));
  }
  CheckKept(recipe);
  return recipe;
}

constexpr std::string_view kCoded = "+coded";

// "zero++" of "zero+++coded", "zero++ + coded"; anything else as it is.
std::string_view WithoutCoded(std::string_view name) {
  const size_t plus = name.rfind('+');
  if (plus == std::string_view::npos || Trim(name.substr(plus + 1)) != "coded") return name;
  return Trim(name.substr(0, plus));
}

// The same with messages of codes entropy-coded on the slow hops.
Recipe Coded(std::string_view name, Recipe recipe) {
  bool any = false;
  for (CodecPtr* slow : {&recipe.slow_gather, &recipe.slow_reduce}) {
    if (IsRaw(**slow)) continue;
    *slow = codec::ByName(StrCat((*slow)->name(), "/coded"), kSetting);
    any = true;
  }
  if (!any) {
    Refuse(name, StrCat("has nothing to entropy-code: its slow hops send numbers as they are, so "
                        "leave out ",
                        kCoded));
  }
  return recipe;
}

Recipe ByName(std::string_view name, DType wire) {
  if (const std::string_view base = WithoutCoded(name); base != name) {
    if (WithoutCoded(base) != base) Refuse(name, StrCat("says ", kCoded, " twice: leave one out"));
    return Coded(name, ByName(base, wire));
  }
  if (name == "zero3") return Plain(name, wire);
  for (const auto& [known, hops] : kDifferences) {
    if (name == known) return ByHops(hops, wire);
  }
  return ByParts(name, wire);
}

// The name that its codecs have, or else the hops that zero3 has otherwise.
std::string CanonicalName(const Recipe& recipe, DType wire) {
  const std::vector<HopChoice> hops = HopsOf(recipe);
  for (const std::string& name : RecipeNames()) {
    const Recipe known = ByName(name, wire);
    if (HopsOf(known) == hops) return name;
    if (IsRaw(*known.slow_gather) && IsRaw(*known.slow_reduce)) continue;
    if (HopsOf(Coded(name, known)) == hops) return StrCat(name, kCoded);
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

std::optional<DType> RawType(const codec::Codec& codec) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (NameOf(type) == codec.name()) return type;
  }
  return std::nullopt;
}

std::vector<HopChoice> HopsOf(const Recipe& recipe) {
  const auto name = [](const CodecPtr& codec) {
    return codec == nullptr ? std::string("codes") : std::string(codec->name());
  };
  const auto reduce = [&](const CodecPtr& codec) {
    const bool rotated = recipe.rotation != 0 && !IsRaw(*codec);
    return StrCat(rotated ? codec::RotationPrefix(recipe.rotation) : "", codec->name());
  };
  const auto kept =
      std::ranges::find(kKept, recipe.kept, &std::pair<std::string_view, Kept>::second);
  return {{"slow_gather", name(recipe.slow_gather)},
          {"fast_gather", name(recipe.fast_gather)},
          {"fast_reduce", reduce(recipe.fast_reduce)},
          {"slow_reduce", reduce(recipe.slow_reduce)},
          {"keep", std::string(kept->first)},
          {"feedback", recipe.feedback == nullptr ? "nothing" : name(recipe.feedback)}};
}

std::vector<std::string> RecipeNames() {
  return {"zero3",   "qwz",    "hpz",    "qgz",           "qwz+hpz", "qwz+qgz",
          "hpz+qgz", "zero++", "delta4", "delta-ternary", "ternary"};
}

Recipe MakeRecipe(std::string_view name, DType wire) {
  const std::string_view text = Trim(name);
  Recipe recipe =
      text.find('=') == std::string_view::npos ? ByName(text, wire) : ByHops(text, wire);
  recipe.name = CanonicalName(recipe, wire);
  return recipe;
}

Recipe Adapt(Recipe recipe, int hosts, DType wire) {
  if (hosts > 1) return recipe;
  const CodecPtr raw = codec::ByName(NameOf(wire), kSetting);
  if (recipe.kept != Kept::kNothing) {
    recipe.kept = Kept::kNothing;
    recipe.remarks.push_back("nothing is kept: there is one host, and no slow link to spare");
  }
  const auto codes = [](const CodecPtr& codec) { return codec == nullptr || !IsRaw(*codec); };
  if (codes(recipe.fast_gather) || codes(recipe.fast_reduce)) {
    recipe.remarks.push_back(StrCat("the hops inside the host carry ", NameOf(wire),
                                    " as it is: coding them gains nothing on one host"));
  }
  recipe.slow_gather = recipe.slow_reduce = raw;
  recipe.rotation = 0;
  recipe.feedback = nullptr;
  for (CodecPtr* fast : {&recipe.fast_gather, &recipe.fast_reduce}) {
    if (codes(*fast)) *fast = raw;
  }
  return recipe;
}

Recipe AdaptToStage(Recipe recipe, int stage, DType wire) {
  if (stage >= 3 || recipe.kept == Kept::kNothing) return recipe;
  if (recipe.kept == Kept::kReference) {
    if (!IsRaw(*recipe.fast_gather)) {
      recipe.fast_gather = codec::ByName(NameOf(wire), kSetting);
      recipe.remarks.push_back(StrCat("the fast gather carries ", NameOf(wire),
                                      " as it is: below stage 3 the weights that it brings are the "
                                      "reference of the next step"));
    }
    return recipe;
  }
  recipe.kept = Kept::kNothing;
  recipe.remarks.push_back(
      StrCat("no slice is kept: at stage ", stage, " each rank has all weights anyway"));
  return recipe;
}

}  // namespace thinwire::zero
