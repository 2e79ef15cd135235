#include "thinwire/speech/wav.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "thinwire/base/error.h"

namespace thinwire::speech {
namespace {

static_assert(std::endian::native == std::endian::little, "fields are copied as they lie");

constexpr uint16_t kPcm = 1, kFloat = 3, kExtensible = 0xfffe;
constexpr size_t kFormatBytes = 16, kExtensibleBytes = 40;
constexpr size_t kSubformat = 24;  // place of the format of an extensible one
constexpr int64_t kLowestRate = 1000, kHighestRate = 768000;
// What a recorder writes that does not know yet how long it will run.
constexpr uint32_t kUnknownSize = UINT32_MAX;

template <typename T>
T At(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

struct Format {
  uint16_t code = 0;
  int64_t channels = 0;
  int64_t rate = 0;
  int64_t bits = 0;
};

class Parser {
 public:
  Parser(const std::string& path, std::string_view bytes) : path_(path), bytes_(bytes) {}

  Audio Parse() {
    if (bytes_.empty()) Fail("is empty");
    if (bytes_.size() < 12 || bytes_.substr(0, 4) != "RIFF" || bytes_.substr(8, 4) != "WAVE") {
      Fail("is no WAV file (it does not begin with RIFF ... WAVE)");
    }
    std::optional<Format> format;
    size_t at = 12;
    while (bytes_.size() - at >= 8) {
      const std::string_view name = bytes_.substr(at, 4);
      const auto stated = At<uint32_t>(bytes_, at + 4);
      at += 8;
      const size_t left = bytes_.size() - at;
      const bool data = name == "data";
      const bool open = data && (stated == 0 || stated == kUnknownSize);
      if (!open && stated > left) {
        Fail(StrCat("its ", data ? "data is" : "header has a part that is", " said to be ", stated,
                    " bytes long, but the file ends after ", left));
      }
      const std::string_view chunk = bytes_.substr(at, open ? left : stated);
      if (name == "fmt ") format = ReadFormat(chunk);
      if (data) {
        if (!format) Fail("has data before its format");
        return ReadSamples(*format, chunk);
      }
      at += std::min(left, chunk.size() + chunk.size() % 2);  // chunks begin at even places
    }
    Fail(format ? "has no data" : "has neither format nor data");
  }

 private:
  [[noreturn]] void Fail(std::string_view problem) const {
    throw UsageError(StrCat(path_, ": ", problem));
  }

  Format ReadFormat(std::string_view chunk) const {
    if (chunk.size() < kFormatBytes) {
      Fail(StrCat("its format is ", chunk.size(), " bytes long; at least ", kFormatBytes,
                  " expected"));
    }
    Format format = {.code = At<uint16_t>(chunk, 0),
                     .channels = At<uint16_t>(chunk, 2),
                     .rate = At<uint32_t>(chunk, 4),
                     .bits = At<uint16_t>(chunk, 14)};
    if (format.code == kExtensible) {
      if (chunk.size() < kExtensibleBytes) Fail("its extensible format is cut off");
      format.code = At<uint16_t>(chunk, kSubformat);
    }
    const bool known =
        format.code == kPcm
            ? format.bits == 8 || format.bits == 16 || format.bits == 24 || format.bits == 32
            : format.code == kFloat && (format.bits == 32 || format.bits == 64);
    if (!known) {
      Fail(StrCat("format ", format.code, " of ", format.bits,
                  " bits is not read: save it as PCM of 8, 16, 24 or 32 bits or as floats"));
    }
    if (format.channels < 1 || format.channels > kMaxChannels) {
      Fail(StrCat("1 to ", kMaxChannels, " channels expected, found ", format.channels));
    }
    if (format.rate < kLowestRate || format.rate > kHighestRate) {
      Fail(StrCat(kLowestRate, " to ", kHighestRate, " samples a second expected, found ",
                  format.rate));
    }
    const int64_t block = format.channels * format.bits / 8;
    if (At<uint16_t>(chunk, 12) != block) {
      Fail(StrCat("samples of ", format.channels, " channels of ", format.bits, " bits take ",
                  block, " bytes, not ", At<uint16_t>(chunk, 12)));
    }
    return format;
  }

  static double Sample(const Format& format, std::string_view bytes, size_t at) {
    if (format.code == kFloat) {
      return format.bits == 32 ? At<float>(bytes, at) : At<double>(bytes, at);
    }
    switch (format.bits) {
      case 8:
        return (At<uint8_t>(bytes, at) - 128) / 128.0;
      case 16:
        return At<int16_t>(bytes, at) / 32768.0;
      case 24: {
        uint32_t raw = 0;
        std::memcpy(&raw, bytes.data() + at, 3);
        return static_cast<int32_t>(raw << 8) / 2147483648.0;  // the sign bit at the top
      }
      default:
        return At<int32_t>(bytes, at) / 2147483648.0;
    }
  }

  Audio ReadSamples(const Format& format, std::string_view data) const {
    const auto width = static_cast<size_t>(format.bits / 8);
    const auto channels = static_cast<size_t>(format.channels);
    const size_t frames = data.size() / (width * channels);
    if (frames == 0) Fail("has no samples");
    Audio audio = {.rate = format.rate, .samples = std::vector<float>(frames)};
    size_t at = 0;
    for (float& sample : audio.samples) {
      double sum = 0;
      for (size_t c = 0; c < channels; ++c, at += width) sum += Sample(format, data, at);
      sample = static_cast<float>(sum / static_cast<double>(format.channels));
      if (!std::isfinite(sample))
        Fail(StrCat("sample ", at / (width * channels) - 1, " is no number"));
    }
    return audio;
  }

  const std::string& path_;
  std::string_view bytes_;
};

}  // namespace

Audio ReadWav(io::FileSystem& fs, const std::string& path) {
  const std::string bytes = io::ReadFile(fs, path, kMaxWavBytes);
  return Parser(path, bytes).Parse();
}

}  // namespace thinwire::speech
