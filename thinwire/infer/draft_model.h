// A smaller model beside one, whose guesses that one checks.
#pragma once

#include <memory>
#include <string>

#include "thinwire/infer/decoder.h"
#include "thinwire/text/vocabulary.h"

namespace thinwire::infer {

class DraftModel {
 public:
  // Out of the file `path`, for a model of `vocabulary` within `limits`. Adds its memory to `plan`,
  // so Take comes before any other call. UsageError naming the file as of Engine, and where its
  // vocabulary is another or it knows fewer positions than a sequence of `context` has.
  DraftModel(const std::string& path, const text::Vocabulary& vocabulary, ThreadTeam& team,
             int64_t context, const DecoderLimits& limits, MemoryPlan& plan);

  Decoder& decoder() { return *decoder_; }
  int64_t weight_bytes() const { return weights_->bytes(); }

 private:
  DecoderSpec spec_;
  std::unique_ptr<DecoderWeights> weights_;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace thinwire::infer
