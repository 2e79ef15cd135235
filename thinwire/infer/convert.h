// Conversion of a Hugging Face model (a directory with config.json, safetensors and tokenizer.json)
// to GGUF.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/weight_type.h"
#include "thinwire/io/file.h"

namespace thinwire::infer {

struct ConvertOptions {
  // Of the matrices: F32, F16 or BF16; none: each as in the source. Vectors and positions are F32.
  std::optional<WeightType> type = {};
  // tokenizer.ggml.pre where tokenizer.json splits words in a way that has no name here.
  std::string pre_tokenizer = {};
};

struct Conversion {
  std::string architecture;
  int64_t tensors = 0;
  int64_t tokens = 0;  // 0: the directory has no tokenizer
  int64_t bytes = 0;   // of the file
};

// Reads one tensor at a time; the file appears whole or not at all. LLaMA, Mistral, Qwen2, GPT-2
// and OPT are known. Throws UsageError naming the file and the key or tensor when something is
// missing, malformed, of another shape than config.json says, or would compute something else in
// GGUF; IoError.
Conversion ConvertHuggingFace(io::FileSystem& fs, const std::string& directory,
                              const std::string& output, const ConvertOptions& options);

}  // namespace thinwire::infer
