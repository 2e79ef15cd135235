// A model that is ready to answer: file, weights, tokenizer, planned memory and a scheduler.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "thinwire/infer/draft_model.h"
#include "thinwire/infer/scheduler.h"
#include "thinwire/text/token_trie.h"
#include "thinwire/text/tokenizer.h"

namespace thinwire::infer {

struct EngineOptions {
  int threads = 0;  // 0: as many as this process may use cores
  int64_t context =
      0;  // positions of a sequence; 0: as many as the model was trained for, at most 4096
  int64_t sequences = 1;                            // requests at once
  kernels::KvType kv_type = kernels::KvType::kF16;  // of keys and values
  int64_t batch = 256;                              // tokens of a pass
  int64_t outputs = 8;  // rows of logits at once: what guesses and perplexity share a product in
  std::string draft =
      {};  // file of a smaller model of the same vocabulary that guesses; empty: none
};

class Engine {
 public:
  // Throws UsageError naming file and key, tensor or token for a file that does not hold a model
  // that runs here, IoError where it cannot be read, std::bad_alloc without memory.
  Engine(const std::string& path, const EngineOptions& options);
  // Of what would be the beginning of a file (io::GgufWriter::Describe). Its weights are zero until
  // they are set.
  Engine(const io::GgufFile& beginning, const EngineOptions& options)
      : Engine(beginning, options, /*data_is_here=*/false) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const std::string& path() const { return path_; }
  const DecoderSpec& spec() const { return spec_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  // For answers that a grammar constrains; made when it is first asked for. Threads may ask.
  const text::TokenTrie& token_trie() const;
  // Empty where the file has none.
  const std::string& chat_template() const { return chat_template_; }
  Decoder& decoder() { return *decoder_; }
  DecoderWeights& weights() { return *weights_; }
  ThreadTeam& team() { return team_; }
  Scheduler& scheduler() { return *scheduler_; }
  int threads() const { return team_.threads(); }
  int64_t context() const { return options_.context; }

  // With those of the draft.
  int64_t weight_bytes() const {
    return weights_->bytes() + (draft_ != nullptr ? draft_->weight_bytes() : 0);
  }
  // Keys and values, activations, scratch: by name.
  const std::vector<MemoryPlan::Part>& planned() const { return plan_.parts(); }
  int64_t planned_bytes() const { return plan_.bytes(); }

 private:
  Engine(const io::GgufFile& file, const EngineOptions& options, bool data_is_here);

  const std::string path_;
  EngineOptions options_;
  ThreadTeam team_;
  DecoderSpec spec_;
  std::string chat_template_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  mutable std::once_flag trie_once_;
  mutable std::unique_ptr<const text::TokenTrie> trie_;
  std::unique_ptr<DecoderWeights> weights_;
  MemoryPlan plan_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<DraftModel> draft_;  // where there is one
  PlannedMemory memory_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace thinwire::infer
