#include "thinwire/infer/quantize_plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "thinwire/base/error.h"
#include "thinwire/base/nearest.h"

namespace thinwire::infer {
namespace {

struct Recipe {
  std::string_view name;
  WeightType type;
  bool mix;  // see TypeInMix
  uint32_t file_type;
};

// Numbers of llama.cpp's llama_ftype. That of plain Q4_K, say, is its Q4_K_S.
constexpr std::array kRecipes = {
    Recipe{"F32", WeightType::kF32, false, 0},
    Recipe{"F16", WeightType::kF16, false, 1},
    Recipe{"BF16", WeightType::kBF16, false, 32},
    Recipe{"Q8_0", WeightType::kQ8_0, false, 7},
    Recipe{"Q6_K", WeightType::kQ6_K, false, 18},
    Recipe{"Q5_K_M", WeightType::kQ5_K, true, 17},
    Recipe{"Q5_K", WeightType::kQ5_K, false, 16},
    Recipe{"Q5_1", WeightType::kQ5_1, false, 9},
    Recipe{"Q5_0", WeightType::kQ5_0, false, 8},
    Recipe{"Q4_K_M", WeightType::kQ4_K, true, 15},
    Recipe{"Q4_K", WeightType::kQ4_K, false, 14},
    Recipe{"Q4_1", WeightType::kQ4_1, false, 3},
    Recipe{"Q4_0", WeightType::kQ4_0, false, 2},
    Recipe{"IQ4_NL", WeightType::kIQ4_NL, false, 25},
    Recipe{"MXFP4", WeightType::kMXFP4, false, 38},
    Recipe{"Q3_K_M", WeightType::kQ3_K, true, 12},
    Recipe{"Q3_K", WeightType::kQ3_K, false, 11},
    Recipe{"Q2_K", WeightType::kQ2_K, false, 10},
};

std::string Upper(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return upper;
}

const Recipe& RecipeNamed(std::string_view name) {
  const std::string wanted = Upper(name);
  const auto found = std::ranges::find(kRecipes, std::string_view(wanted), &Recipe::name);
  if (found != kRecipes.end()) return *found;
  throw UsageError(
      StrCat("no recipe is called ", io::QuotedName(name), ": there are ", QuantizeRecipes()));
}

double BitsPerWeight(WeightType type) {
  return 8.0 * static_cast<double>(BlockBytes(type)) / static_cast<double>(BlockElements(type));
}

bool Ends(std::string_view name, std::string_view with) { return name.ends_with(with); }

// Of matrices: those that are multiplied with activations or looked up row by row, but for routers
// of experts and tables of positions.
bool IsWeightMatrix(std::string_view name) {
  return Ends(name, ".weight") && !Ends(name, "_norm.weight") &&
         !Ends(name, "ffn_gate_inp.weight") && !Ends(name, "position_embd.weight") &&
         !Ends(name, "token_types.weight");
}

// N of "blk.N.", -1 outside of blocks.
int64_t BlockOf(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  int64_t block = -1;
  if (name.starts_with(kPrefix)) {
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), block);
  }
  return block;
}

// The M mixes, tensor by tensor as in llama.cpp: more bits for the values and what comes back from
// the hidden layer, in blocks where they were found to matter; for the attention's output, too,
// where others have three bits.
WeightType TypeInMix(WeightType type, std::string_view name, int64_t blocks) {
  const bool values = Ends(name, ".attn_v.weight");
  const bool down = Ends(name, ".ffn_down.weight") || Ends(name, ".ffn_down_exps.weight");
  const bool fused = Ends(name, ".attn_qkv.weight");
  const int64_t block = BlockOf(name);
  if (type == WeightType::kQ3_K) {
    if (fused || Ends(name, ".attn_output.weight")) return WeightType::kQ4_K;
    if (!values && !down) return type;
    return block < (values ? 2 : blocks / 16) ? WeightType::kQ5_K : WeightType::kQ4_K;
  }
  if (fused) return type == WeightType::kQ4_K ? WeightType::kQ5_K : WeightType::kQ6_K;
  if (!values && !down) return type;
  const int64_t eighth = blocks / 8;
  const bool favoured = block < eighth || block >= 7 * blocks / 8 || (block - eighth) % 3 == 2;
  return favoured ? WeightType::kQ6_K : type;
}

WeightType FallBack(WeightType type) {
  switch (type) {
    case WeightType::kQ2_K:
    case WeightType::kQ3_K:
      return WeightType::kQ4_0;
    case WeightType::kQ4_K:
      return WeightType::kQ5_0;
    case WeightType::kQ5_K:
      return WeightType::kQ5_1;
    case WeightType::kQ6_K:
      return WeightType::kQ8_0;
    default:
      return WeightType::kF16;
  }
}

bool Fits(const io::GgufTensor& tensor, WeightType type) {
  return tensor.columns() % BlockElements(type) == 0;
}

// * stands for any text.
bool Matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t from = star; from <= name.size(); ++from) {
    if (Matches(rest, name.substr(from))) return true;
  }
  return false;
}

struct Override {
  std::string_view pattern;
  WeightType type;
  bool used = false;
};

std::vector<Override> ReadOverrides(std::span<const std::string> texts) {
  std::vector<Override> overrides;
  for (const std::string_view text : texts) {
    const size_t equals = text.rfind('=');
    const std::optional<WeightType> type =
        equals == std::string_view::npos ? std::nullopt : WeightTypeNamed(text.substr(equals + 1));
    if (!type) {
      throw UsageError(StrCat("--tensor ", io::QuotedName(text),
                              ": expected PATTERN=TYPE, as in --tensor output.weight=Q8_0"));
    }
    overrides.push_back({text.substr(0, equals), *type});
  }
  return overrides;
}

// Counts alike cases, so that a model of 30 equal blocks says it once.
class Notes {
 public:
  void FellBack(const io::GgufTensor& tensor, WeightType wanted, WeightType type) {
    const std::string text =
        StrCat(tensor.columns(), " columns are no multiple of ", BlockElements(wanted), ": ",
               NameOf(type), " instead of ", NameOf(wanted));
    Case& fallback = cases_[text];
    if (fallback.count++ == 0) fallback.first = tensor.name;
  }
  void Again(WeightType from) { ++again_[from]; }

  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const auto& [text, fallback] : cases_) {
      const int64_t others = fallback.count - 1;
      lines.push_back(StrCat(fallback.first,
                             others == 0   ? std::string()
                             : others == 1 ? std::string(" and one more")
                                           : StrCat(" and ", others, " more"),
                             ": ", text));
    }
    for (const auto& [type, count] : again_) {
      lines.push_back(StrCat(
          "warning: ", count, count == 1 ? " tensor comes" : " tensors come", " from ",
          NameOf(type),
          ": what was lost there stays lost; start from F32, F16 or BF16 if there is such a file"));
    }
    return lines;
  }

 private:
  struct Case {
    std::string first;
    int64_t count = 0;
  };
  std::map<std::string, Case> cases_;
  std::map<WeightType, int64_t> again_;
};

class Planner {
 public:
  Planner(std::span<const io::GgufTensor> tensors, const Recipe& recipe) : recipe_(recipe) {
    for (const io::GgufTensor& tensor : tensors) {
      blocks_ = std::max(blocks_, BlockOf(tensor.name) + 1);
      has_head_ = has_head_ || tensor.name == "output.weight";
    }
  }

  WeightType TypeOf(const io::GgufTensor& tensor, Notes& notes) const {
    if (tensor.elements() == tensor.columns()) return WeightType::kF32;
    if (!IsWeightMatrix(tensor.name)) return tensor.type;
    WeightType type = recipe_.mix ? TypeInMix(recipe_.type, tensor.name, blocks_) : recipe_.type;
    const bool head = tensor.name == (has_head_ ? "output.weight" : "token_embd.weight");
    if (head && BitsPerWeight(type) < BitsPerWeight(WeightType::kQ6_K)) type = WeightType::kQ6_K;
    const WeightType wanted = type;
    while (!Fits(tensor, type)) type = FallBack(type);
    if (type != wanted) notes.FellBack(tensor, wanted, type);
    return type;
  }

 private:
  const Recipe& recipe_;
  int64_t blocks_ = 0;
  bool has_head_ = false;
};

}  // namespace

std::string QuantizeRecipes() {
  std::string names;
  for (const Recipe& recipe : kRecipes) {
    names += names.empty() ? "" : ", ";
    names += recipe.name;
  }
  return names;
}

QuantizePlan PlanQuantize(std::span<const io::GgufTensor> tensors, std::string_view recipe,
                          std::span<const std::string> overrides) {
  const Recipe& chosen = RecipeNamed(recipe);
  std::vector<Override> patterns = ReadOverrides(overrides);
  const Planner planner(tensors, chosen);
  QuantizePlan plan;
  plan.file_type = chosen.file_type;
  Notes notes;
  for (const io::GgufTensor& tensor : tensors) {
    std::optional<WeightType> forced;
    for (Override& pattern : patterns) {
      if (!Matches(pattern.pattern, tensor.name)) continue;
      pattern.used = true;
      forced = pattern.type;
    }
    if (forced && !Fits(tensor, *forced)) {
      throw UsageError(StrCat("--tensor: ", tensor.name, " has rows of ", tensor.columns(),
                              ", but ", NameOf(*forced), " comes in blocks of ",
                              BlockElements(*forced)));
    }
    const WeightType type = forced ? *forced : planner.TypeOf(tensor, notes);
    plan.types.push_back(type);
    const bool lossy = BlockElements(tensor.type) > 1 && tensor.type != WeightType::kQ8_0;
    if (lossy && type != tensor.type && BlockElements(type) > 1) notes.Again(tensor.type);
  }
  for (const Override& pattern : patterns) {
    if (pattern.used) continue;
    throw UsageError(StrCat("--tensor ", io::QuotedName(pattern.pattern),
                            ": no tensor has such a name; `thinwire inspect` lists them"));
  }
  plan.notes = notes.Lines();
  return plan;
}

}  // namespace thinwire::infer
