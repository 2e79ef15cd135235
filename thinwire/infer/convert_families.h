// What becomes of the configuration and of each tensor of a Hugging Face model in GGUF.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/infer/convert_source.h"
#include "thinwire/io/gguf_writer.h"

namespace thinwire::infer {

// How the rows of a source become those of the target.
enum class RowOrder : uint8_t {
  kSame,
  kNeighbours,  // rotary embedding turns halves of a head in the source, neighbours in the target
  kTransposed,  // input columns are rows in the source
  kBehindTwo,   // the first two rows are left out
};

struct TensorRule {
  std::string source;
  std::string target;
  std::vector<int64_t> shape;  // of the source
  RowOrder order = RowOrder::kSame;
  int64_t heads = 0;  // of kNeighbours
  bool optional = false;
  bool exact = false;  // stays fp32 whatever the others become
};

struct Family {
  std::string architecture;  // in GGUF
  int64_t vocabulary = 0;    // rows of the embedding
  std::vector<TensorRule> tensors;
  // What a source may hold and GGUF does without: ends of names.
  std::vector<std::string> left_out;
  // Divisors of the rotary frequencies, "rope_freqs.weight"; empty: none.
  std::vector<float> frequency_factors;
};

// Sets the metadata that describes the network. LLaMA, Mistral, Qwen2, GPT-2 and OPT are known.
// Throws UsageError naming config.json and the key: another architecture, a value that is missing
// or out of range, or one that makes the network another than GGUF's readers compute.
Family DescribeFamily(const ModelSource& model, io::GgufWriter& writer);

}  // namespace thinwire::infer
