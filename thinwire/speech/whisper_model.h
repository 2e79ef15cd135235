// A Whisper model as it is stored: a GGUF file of ours, or a folder as CTranslate2 has them
// (model.bin, config.json, vocabulary.json or vocabulary.txt).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/weight_type.h"
#include "thinwire/io/file.h"
#include "thinwire/speech/whisper_spec.h"

namespace thinwire::speech {

// The vocabulary as it is stored, and tokens that the model shall never produce.
struct WhisperTokens {
  std::vector<std::string> tokens;  // in the alphabet of byte-level vocabularies
  std::vector<int32_t> suppressed;
  std::vector<int32_t> suppressed_first;  // not as the first token of a window
};

class WhisperModel {
 public:
  // Throws UsageError naming file and key or tensor: no model that is read here, a tensor that is
  // missing or of another shape or type, a number out of range.
  static std::unique_ptr<WhisperModel> Open(const std::string& path);
  virtual ~WhisperModel() = default;

  const std::string& path() const { return path_; }
  const WhisperSpec& spec() const { return spec_; }
  const WhisperTokens& tokens() const { return tokens_; }
  // TensorsOf(spec()).
  const std::vector<WhisperTensor>& tensors() const { return tensors_; }

  // How the tensor is stored; vectors are F32.
  virtual WeightType TypeOf(const WhisperTensor& tensor) const = 0;
  // Rows [first, first + rows) in that type.
  virtual void Read(const WhisperTensor& tensor, int64_t first, int64_t rows,
                    std::span<std::byte> out) const = 0;
  // For whoever has a copy of all of it.
  virtual void Drop(const WhisperTensor& tensor) const = 0;

 protected:
  explicit WhisperModel(std::string path) : path_(std::move(path)) {}
  // Checks spec_ and tokens_, then lists tensors_.
  void CheckHeader();

  std::string path_;
  WhisperSpec spec_;
  WhisperTokens tokens_;
  std::vector<WhisperTensor> tensors_;
};

// The type in which a tensor of `stored` type is kept when matrices are asked for in `wanted`
// (none: as they are).
WeightType KeptType(const WhisperTensor& tensor, WeightType stored,
                    std::optional<WeightType> wanted);
// Rows as Read has them, in KeptType.
void ReadAs(const WhisperModel& model, const WhisperTensor& tensor, WeightType type, int64_t first,
            int64_t rows, std::span<std::byte> out);

// Writes the model as a GGUF file, matrices in `wanted`.
void WriteGguf(const WhisperModel& model, std::optional<WeightType> wanted, io::FileSystem& fs,
               const std::string& path);

}  // namespace thinwire::speech
