// Where speech cannot be: in silence, and in sound that stays as it is, such as noise, hum or a
// tone.
//
// A model that has heard speech alone finds words in anything. Speech changes from sound to sound,
// some ten times a second, so a stretch in which nothing changes holds none, whatever a model says.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/speech/log_mel.h"

namespace thinwire::speech {

class SpeechGate {
 public:
  // Power in eight bands, averaged over 50 ms, is compared with itself a tenth of a second later; a
  // frame between the two changes where some band differs by 9 dB, which noise does not do by
  // chance. Anything below -77 dB of full scale counts as silence.
  explicit SpeechGate(const LogMel& log_mel);

  // Frames [first, first + count) that change.
  int64_t Changes(int64_t first, int64_t count) const;
  // False where fewer than 0.4 s of these frames change: the beginning and the end of a steady
  // sound are 0.15 s each.
  bool MayHoldSpeech(int64_t first, int64_t count) const {
    return Changes(first, count) >= kFewestChanges;
  }

 private:
  static constexpr int64_t kFewestChanges = 4 * kFramesPerSecond / 10;

  std::vector<int32_t> sums_;  // changes before a frame
};

}  // namespace thinwire::speech
