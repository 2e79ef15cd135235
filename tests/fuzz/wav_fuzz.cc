// WAV files of any bytes: refused with a UsageError of one line, or numbers that speech can be
// looked for in.
#include <cmath>

#include "tests/fuzz/checks.h"
#include "tests/fuzz/target.h"
#include "thinwire/io/file.h"
#include "thinwire/speech/wav.h"

namespace thinwire::fuzz {
namespace {

// A chunk of 16-bit samples; `more` goes between its format and its data.
std::string Wav(uint16_t code, uint16_t bits, const std::string& more) {
  std::string bytes = "RIFF\xff\xff\xff\xffWAVEfmt ";
  const auto put = [&](auto value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  put(uint32_t{16});
  put(code);
  put(uint16_t{1});
  put(uint32_t{16000});
  put(uint32_t{16000} * bits / 8);
  put(static_cast<uint16_t>(bits / 8));
  put(bits);
  bytes += more + "data";
  put(uint32_t{48});
  return bytes + std::string(48, '\x12');
}

}  // namespace

std::vector<std::string> Seeds() {
  return {Wav(1, 16, ""), Wav(3, 32, std::string("LIST\x04\0\0\0abcd", 12)), Wav(1, 24, ""),
          Wav(1, 8, ""), Wav(3, 64, "")};
}

}  // namespace thinwire::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thinwire;
  const fuzz::MemoryFile file(std::as_bytes(std::span(data, size)));
  fuzz::Accepts(file.path(), [&] {
    const speech::Audio audio = speech::ReadWav(io::RealFileSystem(), file.path());
    fuzz::Require(audio.rate >= 1000 && audio.rate <= 768000, "a rate that is none");
    fuzz::Require(!audio.samples.empty() && audio.samples.size() <= size, "samples from nowhere");
    for (const float sample : audio.samples) fuzz::Require(std::isfinite(sample), "no number");
  });
  return 0;
}
