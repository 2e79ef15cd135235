// WAV files as one channel of samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/io/file.h"

namespace thinwire::speech {

struct Audio {
  int64_t rate = 0;            // samples per second
  std::vector<float> samples;  // -1 to 1, the mean of all channels; never NaN or inf

  double seconds() const {
    return rate == 0 ? 0 : static_cast<double>(samples.size()) / static_cast<double>(rate);
  }
};

// The largest file that is read, and of how many channels.
constexpr int64_t kMaxWavBytes = int64_t{1} << 32;
constexpr int64_t kMaxChannels = 64;

// PCM of 8 (unsigned), 16, 24 or 32 bits, floats of 32 or 64, 1000 to 768000 samples a second, also
// as WAVE_FORMAT_EXTENSIBLE. The data may be said to be longer than the file by a recorder that
// was cut off: what is there is read where the stated size is 0 or 2^32 - 1, as streams have it.
//
// Throws UsageError naming the file, and what is wrong with it: not a WAV file, a chunk that ends
// behind the file, a format that is none of these, no samples, a sample that is NaN or inf; IoError
// where it cannot be read.
Audio ReadWav(io::FileSystem& fs, const std::string& path);

}  // namespace thinwire::speech
