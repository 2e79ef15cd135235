// Recipes: which codec sits on each hop, and what a rank keeps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/codec/codec.h"

namespace thinwire::zero {

// What a rank keeps between steps so that the slow gather is a push after the optimizer step.
enum class Kept : uint8_t {
  kNothing,  // weights are pulled before each use
  kValues,   // its host slice in compute dtype (hpZ): 2 M/L bytes in bf16
  kCodes,    // its host slice in the codes of the slow gather, so that all uses see the same bits
  // Its host slice in compute dtype, which is what differences are taken against: the owner sends
  // master weights minus reference, and all, the owner too, add what they decode. What a code loses
  // is in the next difference, so the reference follows the masters (SDP4Bit, arXiv 2410.15526,
  // section 3.1, for weights that stay whole on each rank).
  kReference,
};

inline constexpr std::pair<std::string_view, Kept> kKeptNames[] = {{"nothing", Kept::kNothing},
                                                                   {"values", Kept::kValues},
                                                                   {"codes", Kept::kCodes},
                                                                   {"reference", Kept::kReference}};

using CodecPtr = std::shared_ptr<const codec::Codec>;

struct Recipe {
  std::string name;
  Kept kept = Kept::kNothing;
  CodecPtr slow_gather{};
  CodecPtr fast_gather{};  // null: the codes of the slow gather are passed on as they are
  CodecPtr fast_reduce{};
  CodecPtr slow_reduce{};
  // Elements of a gradient's row that are rotated together (kernels/rotate.h) before the fast
  // reduce and back after the slow one, so that sums and codes are those of rotated gradients;
  // 0: none are. The codecs of the reduces say nothing of it.
  int64_t rotation = 0;
  // Of what the slow reduce still owes (error feedback, LoCo, arXiv 2407.04480, section 3, without
  // its average); null: what it loses is lost. Signs of rotations are then the same in all steps.
  CodecPtr feedback{};
  CodecPtr vectors{};  // 1-D parameters, where the hop's own codec is not raw: that of `wire`
  // Why a hop differs from what the name says, one line each; see Adapt().
  std::vector<std::string> remarks{};

  bool forwards_codes() const { return fast_gather == nullptr; }
  // The slow gather carries differences, except where full values are due.
  bool sends_differences() const { return kept == Kept::kReference; }
};

// The type in which it sends values as they are; none: it sends codes.
std::optional<DType> RawType(const codec::Codec& codec);
inline bool IsRaw(const codec::Codec& codec) { return RawType(codec).has_value(); }

// The raw codec of a type.
CodecPtr RawCodec(DType type);

// The recipes that have names, and what they have otherwise than zero3, hop by hop; a list of
// recipes elsewhere is checked against this one. Blocks of 128 have 2 bytes of scale each. Adam's
// updates have no heavy tail, so that long blocks suffice for their differences in int4; gradients
// have, so they are rotated.
struct NamedRecipe {
  std::string_view name, hops;
};
inline constexpr NamedRecipe kNamedRecipes[] = {
    {"zero3", ""},
    {"qwz", "slow_gather=int8/128, fast_gather=codes"},
    {"hpz", "keep=values"},
    {"qgz", "fast_reduce=int4/128, slow_reduce=int4/128"},
    {"qwz+hpz", "slow_gather=int8/128, fast_gather=codes, keep=codes"},
    {"qwz+qgz",
     "slow_gather=int8/128, fast_gather=codes, fast_reduce=int4/128, slow_reduce=int4/128"},
    {"hpz+qgz", "fast_reduce=int4/128, slow_reduce=int4/128, keep=values"},
    {"zero++",
     "slow_gather=int8/128, fast_gather=codes, fast_reduce=int4/128, slow_reduce=int4/128, "
     "keep=codes"},
    {"delta4",
     "slow_gather=int4/2048/max0.75, fast_reduce=rot128+int8/128, slow_reduce=rot128+int4/128, "
     "keep=reference"},
    {"delta-ternary",
     "slow_gather=ternary/128, fast_reduce=rot128+int8/128, slow_reduce=rot128+int4/128, "
     "keep=reference"},
    {"ternary",
     "slow_gather=ternary/128, fast_reduce=rot128+int8/128, "
     "slow_reduce=rot128+ternary/128/rms1.22, keep=reference"}};

// For help texts and suggestions.
std::vector<std::string> RecipeNames();

// A recipe as people write it, with the raw codec of `wire` where that says nothing:
//   a name of the table above. qwz (weights in int8, the same codes on both hops), hpz (the slice
//   of the host is kept: its values, or with qwz its codes) and qgz (gradients in int4) add up in
//   any order; zero++ is all three
//   "+coded" behind a name that sends codes over the slow hops: these are entropy-coded there
//   or hop by hop: "slow_gather=int8/128, fast_gather=codes, fast_reduce=bf16,
//   slow_reduce=int4/64, keep=codes", in any order, what is left out as in zero3; keep is nothing,
//   values, codes or reference, and fast_gather may be codes or any codec. "rot32+" or "rot128+" in
//   front of the codec of one reduce rotates on both; feedback is nothing or int8 by blocks.
// Throws UsageError saying what is wrong with it, as the value of `setting`. The name of the result
// is that of the codecs, however they were spelled: qwz+hpz+qgz and " zero++" are zero++,
// keep=values is hpz, and what has no name lists the hops that zero3 has otherwise.
Recipe MakeRecipe(std::string_view name, DType wire, std::string_view setting = "parallel.recipe");

// The four hops, `keep` and `feedback`, as MakeRecipe() reads them: two recipes are the same when
// these are.
struct HopChoice {
  std::string_view hop;
  std::string choice;

  bool operator==(const HopChoice&) const = default;
};
std::vector<HopChoice> HopsOf(const Recipe& recipe);

// The recipe on N hosts: without a slow link there is nothing to save on it, so the hops inside the
// host carry `wire` as it is, or the type that they name, and nothing is kept. Says so in
// `remarks`.
Recipe Adapt(Recipe recipe, int hosts, DType wire);

// The recipe at a stage of ZeRO: below 3 each rank has all weights from step to step, so a slice of
// them beside that would change nothing; they are the reference of differences. Says so in
// `remarks`.
Recipe AdaptToStage(Recipe recipe, int stage, DType wire);

}  // namespace thinwire::zero
