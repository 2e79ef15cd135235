#include "thinwire/infer/decoder_spec.h"

#include <array>
#include <cmath>
#include <string_view>

#include "thinwire/base/error.h"

namespace thinwire::infer {
namespace {

// Far above every model there is, far below where sizes overflow.
constexpr int64_t kMostLayers = 1024;
constexpr int64_t kMostColumns = 1 << 20;
constexpr int64_t kMostPositions = 1 << 24;

struct Family {
  std::string_view architecture;
  DecoderSpec::Norm norm;
  kernels::Activation activation;
  bool gated;
  bool rotary;
  kernels::RotaryPairs pairs;
};

using enum DecoderSpec::Norm;
using enum kernels::Activation;
using enum kernels::RotaryPairs;

// The converters of LLaMA reorder the rows of queries and keys, so that neighbours turn together.
constexpr std::array kFamilies = {
    Family{"llama", kRootMeanSquare, kSilu, true, true, kNeighbours},
    Family{"qwen2", kRootMeanSquare, kSilu, true, true, kHalves},
    Family{"gpt2", kLayer, kGelu, false, false, kHalves},
    Family{"opt", kLayer, kRelu, false, false, kHalves},
};

const Family& FamilyOf(const io::GgufFile& file, std::string_view architecture) {
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.architecture == architecture) return family;
    known = StrCat(known, known.empty() ? "" : ", ", family.architecture);
  }
  throw UsageError(StrCat(file.path(), ": general.architecture: '", architecture,
                          "' is not among those that run here: ", known));
}

class Reader {
 public:
  Reader(const io::GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(StrCat(architecture, ".")) {}

  std::string Key(std::string_view name) const { return prefix_ + std::string(name); }
  int64_t Integer(std::string_view name, int64_t most) const {
    return file_.GetInteger(Key(name), 1, most);
  }
  int64_t Integer(std::string_view name, int64_t most, int64_t otherwise) const {
    return file_.FindInteger(Key(name), 1, most).value_or(otherwise);
  }
  double Positive(std::string_view name, double otherwise) const {
    const double value = file_.Find<float>(Key(name)).value_or(static_cast<float>(otherwise));
    if (!(value > 0) || !std::isfinite(value)) Fail(name, StrCat(value, " is not above 0"));
    return value;
  }
  [[noreturn]] void Fail(std::string_view name, std::string_view problem) const {
    throw UsageError(StrCat(file_.path(), ": ", Key(name), ": ", problem));
  }

 private:
  const io::GgufFile& file_;
  const std::string prefix_;
};

void ReadRotary(const io::GgufFile& file, const Reader& read, DecoderSpec& spec) {
  spec.turned = read.Integer("rope.dimension_count", spec.head_dim, spec.head_dim);
  if (spec.turned % 2 != 0) read.Fail("rope.dimension_count", StrCat(spec.turned, " is odd"));
  spec.rotary_base = read.Positive("rope.freq_base", 10000);
  const auto scaling = file.Find<std::string_view>(read.Key("rope.scaling.type")).value_or("none");
  if (scaling == "linear") {
    spec.rotary_scale = read.Positive("rope.scaling.factor", 1);
  } else if (scaling != "none") {
    read.Fail("rope.scaling.type", StrCat("'", scaling, "' does not run here: none, linear"));
  }
}

}  // namespace

DecoderSpec ReadDecoderSpec(const io::GgufFile& file) {
  DecoderSpec spec;
  spec.architecture = file.Get<std::string_view>("general.architecture");
  const Family& family = FamilyOf(file, spec.architecture);
  const Reader read(file, spec.architecture);
  spec.norm = family.norm;
  spec.activation = family.activation;
  spec.gated = family.gated;
  spec.rotary = family.rotary;
  spec.pairs = family.pairs;

  spec.layers = read.Integer("block_count", kMostLayers);
  spec.hidden = read.Integer("embedding_length", kMostColumns);
  spec.feed_forward = read.Integer("feed_forward_length", kMostColumns);
  spec.context = read.Integer("context_length", kMostPositions);
  spec.heads = read.Integer("attention.head_count", spec.hidden);
  spec.kv_heads = read.Integer("attention.head_count_kv", spec.heads, spec.heads);
  if (spec.heads % spec.kv_heads != 0) {
    read.Fail("attention.head_count_kv",
              StrCat(spec.kv_heads, " does not divide ", spec.heads, " heads of queries"));
  }
  if (!file.FindEntry(read.Key("attention.key_length")) && spec.hidden % spec.heads != 0) {
    read.Fail("attention.head_count",
              StrCat(spec.heads, " does not divide embedding_length ", spec.hidden));
  }
  spec.head_dim = read.Integer("attention.key_length", kMostColumns, spec.hidden / spec.heads);
  if (read.Integer("attention.value_length", kMostColumns, spec.head_dim) != spec.head_dim) {
    read.Fail("attention.value_length", "must be as attention.key_length");
  }
  if (read.Integer("expert_count", kMostColumns, 1) != 1) {
    read.Fail("expert_count", "mixtures of experts do not run here");
  }
  const bool root = spec.norm == DecoderSpec::Norm::kRootMeanSquare;
  spec.epsilon = static_cast<float>(read.Positive(
      root ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", 1e-5));
  spec.window = read.Integer("attention.sliding_window", kMostPositions, 0);
  if (spec.rotary) ReadRotary(file, read, spec);

  const io::GgufTensor& embedding = file.Tensor("token_embd.weight");
  if (embedding.rank != 2 || embedding.columns() != spec.hidden) {
    throw UsageError(StrCat(file.path(), ": token_embd.weight: its rows must have ", spec.hidden,
                            " columns (", read.Key("embedding_length"), ")"));
  }
  spec.vocabulary = embedding.extents[0];
  return spec;
}

}  // namespace thinwire::infer
