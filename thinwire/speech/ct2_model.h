// A Whisper model as CTranslate2 stores it, in fp32, fp16 or bf16.
#pragma once

#include <string>

#include "thinwire/speech/ct2_file.h"
#include "thinwire/speech/whisper_model.h"

namespace thinwire::speech {

class Ct2Model : public WhisperModel {
 public:
  // The folder.
  explicit Ct2Model(const std::string& path);

  WeightType TypeOf(const WhisperTensor& tensor) const override;
  // Vectors come as F32, convolutions [out][step][in]: the file has [out][in][step].
  void Read(const WhisperTensor& tensor, int64_t first, int64_t rows,
            std::span<std::byte> out) const override;
  // Other matrices may lie in the same tensor, so nothing.
  void Drop(const WhisperTensor&) const override {}

 private:
  void ReadSpec();
  void ReadTokens();
  void ReadConfig();
  void CheckTensors() const;

  Ct2File file_;
};

}  // namespace thinwire::speech
