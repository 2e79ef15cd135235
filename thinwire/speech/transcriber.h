// Sound to text with times: windows of 30 seconds, one after the other, each beginning where the
// last complete segment ended (Radford et al., "Robust Speech Recognition via Large-Scale Weak
// Supervision", 2022, section 4.5).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/memory_plan.h"
#include "thinwire/base/thread_team.h"
#include "thinwire/speech/encoder.h"
#include "thinwire/speech/search.h"
#include "thinwire/speech/vocabulary.h"
#include "thinwire/speech/whisper_model.h"
#include "thinwire/speech/whisper_weights.h"

namespace thinwire::speech {

struct TranscriberOptions {
  int threads = 1;
  std::optional<WeightType> weights = {};  // matrices are kept in this type; none: as stored
  int64_t beam = 5;                        // 1: the most probable token each time
  std::string language = {};               // its code; empty: found out from the first window
  bool translate = false;                  // to English
  bool condition = true;                   // each window knows the text before it
};

struct SpokenSegment {
  double begin = 0;  // seconds
  double end = 0;    // > begin, not behind the end of the sound
  std::string text;  // UTF-8, without white space at its ends; not empty
  // Of the window that it is from.
  double mean_log_probability = 0;
  double no_speech = 0;  // probability
  double temperature = 0;
};

struct Transcript {
  std::string language;  // its code
  double seconds = 0;    // of the sound
  std::vector<SpokenSegment> segments;
};

class Transcriber {
 public:
  // Loads the model. Throws UsageError for a file that is none, or options that do not fit it: a
  // language it does not know, a translation by a model for English only, a beam not of 1 to 16.
  Transcriber(const std::string& path, const TranscriberOptions& options);
  Transcriber(const Transcriber&) = delete;
  Transcriber& operator=(const Transcriber&) = delete;

  const WhisperSpec& spec() const { return spec_; }
  int threads() const { return team_.threads(); }
  int64_t weight_bytes() const { return weights_->bytes(); }
  int64_t planned_bytes() const { return plan_.bytes(); }

  // `samples` at 16 kHz. `report` is called for every segment as soon as it is known. While a
  // window is encoded and its tokens are searched, nothing is allocated.
  Transcript Run(std::span<const float> samples,
                 const std::function<void(const SpokenSegment&)>& report = {});

 private:
  // What one window came to.
  struct Window {
    SearchResult found;
    double no_speech = 0;
    double temperature = 0;
  };

  void MakePrompt(std::span<const int32_t> before);
  Window Recognize(std::span<const int32_t> before, uint64_t seed);
  void FindLanguage();
  // `changes`: frames of the window's sound that the gate counts.
  static bool IsNoSpeech(const Window& window, int64_t changes);

  const TranscriberOptions options_;
  ThreadTeam team_;
  WhisperSpec spec_;
  std::unique_ptr<Vocabulary> vocabulary_;
  std::unique_ptr<WhisperWeights> weights_;
  MemoryPlan plan_;
  std::unique_ptr<Encoder> encoder_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Search> search_;
  PlannedMemory memory_;
  int32_t language_ = -1;  // its token; -1: not known yet
  std::vector<int32_t> prompt_;
  int64_t start_ = 0;  // where <|startoftranscript|> stands in it
};

}  // namespace thinwire::speech
