// For tests: a tiny model out of its file, with a decoder in planned memory.
#pragma once

#include <memory>

#include "thinwire/infer/decoder.h"
#include "thinwire/infer/tiny_model.h"
#include "thinwire/io/testing.h"

namespace thinwire::infer {

class LoadedTinyModel {
 public:
  LoadedTinyModel(const TinyShape& shape, const DecoderLimits& limits, int threads)
      : team_(threads) {
    io::TestDirectory directory;
    TinyModel(shape).Write(directory / "tiny.gguf");
    const io::GgufFile file(directory / "tiny.gguf");
    spec_ = ReadDecoderSpec(file);
    weights_ = std::make_unique<DecoderWeights>(file, spec_, team_);
    decoder_ = std::make_unique<Decoder>(spec_, *weights_, team_, limits, plan_);
    memory_ = plan_.Take();
  }

  const DecoderSpec& spec() const { return spec_; }
  Decoder& decoder() { return *decoder_; }
  Decoder* operator->() { return decoder_.get(); }

 private:
  ThreadTeam team_;
  DecoderSpec spec_;
  std::unique_ptr<DecoderWeights> weights_;
  MemoryPlan plan_;
  std::unique_ptr<Decoder> decoder_;
  PlannedMemory memory_;
};

}  // namespace thinwire::infer
