#include "thinwire/infer/draft_model.h"

#include "thinwire/base/error.h"
#include "thinwire/infer/vocabulary_from_gguf.h"

namespace thinwire::infer {
namespace {

void CheckSame(const std::string& path, const text::Vocabulary& draft,
               const text::Vocabulary& vocabulary) {
  const auto fail = [&](const auto&... what) {
    throw UsageError(StrCat("draft: ", path, ": ", what...,
                            "; a draft needs the vocabulary of the model that checks it"));
  };
  if (draft.size() != vocabulary.size()) {
    fail(draft.size(), " tokens, the model has ", vocabulary.size());
  }
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    if (draft.Bytes(token) != vocabulary.Bytes(token)) {
      fail("token ", token, " is \"", draft.Bytes(token), "\", the model's is \"",
           vocabulary.Bytes(token), '"');
    }
  }
}

}  // namespace

DraftModel::DraftModel(const std::string& path, const text::Vocabulary& vocabulary,
                       ThreadTeam& team, int64_t context, const DecoderLimits& limits,
                       MemoryPlan& plan) {
  const io::GgufFile file(path);
  spec_ = ReadDecoderSpec(file);
  CheckSame(path, ReadTokenizer(file)->vocabulary(), vocabulary);
  if (vocabulary.size() > spec_.vocabulary) {
    throw UsageError(StrCat("draft: ", path, ": ", vocabulary.size(),
                            " tokens, token_embd.weight has ", spec_.vocabulary, " rows"));
  }
  if (!spec_.rotary && context > spec_.context) {
    throw UsageError(
        StrCat("context: the draft ", path, " knows ", spec_.context, " positions, not ", context));
  }
  weights_ = std::make_unique<DecoderWeights>(file, spec_, team);
  DecoderLimits own = limits;
  own.outputs = limits.cache.sequences;
  decoder_ = std::make_unique<Decoder>(spec_, *weights_, team, own, plan);
}

}  // namespace thinwire::infer
