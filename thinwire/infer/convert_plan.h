// What becomes of each tensor of a model on its way into a GGUF file, or into an engine as if out
// of one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/weight_type.h"
#include "thinwire/infer/convert_families.h"
#include "thinwire/infer/convert_source.h"
#include "thinwire/io/gguf_writer.h"

namespace thinwire::infer {

struct ConvertOptions {
  // A recipe of PlanQuantize; empty: each matrix as in the source. Vectors and positions are F32.
  std::string type = {};
  // Where the tokenizer comes from: "" the model's own files, "bytes" (DescribeBytes), or the path
  // of a GGUF file that has it.
  std::string tokenizer = {};
  // tokenizer.ggml.pre where tokenizer.json splits words in a way that has no name here.
  std::string pre_tokenizer = {};
};

struct TensorPlan {
  TensorRule rule;
  WeightType from = WeightType::kF32;
  WeightType to = WeightType::kF32;
  std::vector<int64_t> shape;  // of the target
  std::string where;           // the source's place, for messages
};

struct ConversionPlan {
  std::string architecture;
  int64_t tokens = 0;
  std::vector<TensorPlan> tensors;
  std::vector<float> frequency_factors;  // of "rope_freqs.weight", the first tensor; empty: none
  std::vector<std::string> notes = {};   // see QuantizePlan
};

constexpr const char* kFrequencyFactors = "rope_freqs.weight";

// Sets all metadata in `writer` and declares all tensors, in the order of `source`. LLaMA, Mistral,
// Qwen2, GPT-2 and OPT are known. Throws UsageError naming the file and the key or tensor when
// something is missing, malformed, of another shape than the config says, or would compute
// something else in GGUF.
ConversionPlan PlanConversion(const ModelSource& source, const ConvertOptions& options,
                              io::GgufWriter& writer);

}  // namespace thinwire::infer
