#include "thinwire/infer/engine.h"

#include <algorithm>
#include <utility>

#include "thinwire/base/cpu_features.h"
#include "thinwire/base/error.h"
#include "thinwire/infer/vocabulary_from_gguf.h"

namespace thinwire::infer {
namespace {

// Where nothing else is asked for: keys and values of long contexts are larger than small models.
constexpr int64_t kDefaultContext = 4096;

}  // namespace

Engine::Engine(const std::string& path, const EngineOptions& options)
    : Engine(io::GgufFile(path), options, /*data_is_here=*/true) {}

Engine::Engine(const io::GgufFile& file, const EngineOptions& options, bool data_is_here)
    : path_(file.path()),
      options_(options),
      team_(options.threads == 0 ? UsableCores() : options.threads) {
  spec_ = ReadDecoderSpec(file);
  tokenizer_ = ReadTokenizer(file);
  chat_template_ = FindChatTemplate(file).value_or("");
  const int64_t known = tokenizer_->vocabulary().size();
  if (known > spec_.vocabulary) {
    throw UsageError(StrCat(path_, ": tokenizer.ggml.tokens: ", known,
                            " tokens, token_embd.weight has ", spec_.vocabulary, " rows"));
  }
  if (options_.context == 0) options_.context = std::min(spec_.context, kDefaultContext);
  if (options_.context < 2 || options_.sequences < 1) {
    throw UsageError(StrCat("context: ", options_.context, " positions for ", options_.sequences,
                            " sequences; at least 2 and 1 are needed"));
  }
  if (!spec_.rotary && options_.context > spec_.context) {
    throw UsageError(
        StrCat("context: ", path_, " knows ", spec_.context, " positions, not ", options_.context));
  }
  weights_ = data_is_here ? std::make_unique<DecoderWeights>(file, spec_, team_)
                          : std::make_unique<DecoderWeights>(file, spec_);
  const DecoderLimits limits = {
      .batch = std::max(options_.batch, options_.sequences),
      .outputs = options_.outputs,
      .cache = {.sequences = options_.sequences,
                .positions = CheckedMul(options_.context, options_.sequences, "context"),
                .type = options_.kv_type}};
  decoder_ = std::make_unique<Decoder>(spec_, *weights_, team_, limits, plan_);
  std::unique_ptr<Guesser> guesser;
  if (!options_.draft.empty()) {
    draft_ = std::make_unique<DraftModel>(options_.draft, tokenizer_->vocabulary(), team_,
                                          options_.context, limits, plan_);
    guesser = std::make_unique<DraftGuesser>(draft_->decoder(), known);
  }
  memory_ = plan_.Take();
  std::vector<bool> ends(static_cast<size_t>(spec_.vocabulary));
  for (int32_t id = 0; id < known; ++id) {
    ends[static_cast<size_t>(id)] = tokenizer_->vocabulary().EndsGeneration(id);
  }
  scheduler_ = std::make_unique<Scheduler>(*decoder_, std::move(ends), std::move(guesser));
}

const text::TokenTrie& Engine::token_trie() const {
  std::call_once(trie_once_, [this] {
    trie_ = std::make_unique<const text::TokenTrie>(tokenizer_->vocabulary());
  });
  return *trie_;
}

}  // namespace thinwire::infer
