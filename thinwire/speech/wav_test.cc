#include "thinwire/speech/wav.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "thinwire/io/testing.h"

namespace thinwire::speech {
namespace {

template <typename T>
void Put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

struct WavFile {
  uint16_t code = 1;
  uint16_t channels = 1;
  uint32_t rate = 16000;
  uint16_t bits = 16;
  bool extensible = false;
  std::string data;
  std::string before = {};  // chunks that stand before the data
  uint32_t stated = 0xabcdef;

  std::string Bytes() const {
    std::string fmt;
    Put<uint16_t>(fmt, extensible ? 0xfffe : code);
    Put(fmt, channels);
    Put(fmt, rate);
    const auto block = static_cast<uint16_t>(channels * bits / 8);
    Put<uint32_t>(fmt, rate * block);
    Put(fmt, block);
    Put(fmt, bits);
    if (extensible) {
      Put<uint16_t>(fmt, 22);
      Put(fmt, bits);
      Put<uint32_t>(fmt, 3);
      Put(fmt, code);
      fmt += std::string("\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71", 14);
    }
    std::string all = "RIFF";
    Put<uint32_t>(all, 0);
    all += "WAVEfmt ";
    Put(all, static_cast<uint32_t>(fmt.size()));
    all += fmt + before + "data";
    Put(all, stated == 0xabcdef ? static_cast<uint32_t>(data.size()) : stated);
    return all + data;
  }
};

class WavTest : public testing::Test {
 protected:
  Audio Read(const std::string& bytes) {
    io::WriteFileAtomically(io::RealFileSystem(), directory_ / "x.wav", bytes);
    return ReadWav(io::RealFileSystem(), directory_ / "x.wav");
  }
  std::string ErrorOf(const std::string& bytes) {
    return io::MessageOf<UsageError>([&] { Read(bytes); });
  }

  io::TestDirectory directory_;
};

// -1, -0.5, 0, 0.25 as stored by `put`.
std::string Stored(const std::function<void(std::string&, double)>& put) {
  std::string data;
  for (const double x : {-1.0, -0.5, 0.0, 0.25}) put(data, x);
  return data;
}

TEST_F(WavTest, EveryFormat) {
  const auto integer = [](int bytes) {
    return [bytes](std::string& data, double x) {
      const auto value = static_cast<int64_t>(std::ldexp(x, 8 * bytes - 1));
      data.append(reinterpret_cast<const char*>(&value), static_cast<size_t>(bytes));
    };
  };
  const std::vector<WavFile> files = {
      {.bits = 8, .data = Stored([](std::string& data, double x) {
                    Put(data, static_cast<uint8_t>(128 + 128 * x));
                  })},
      {.bits = 16, .data = Stored(integer(2))},
      {.bits = 24, .data = Stored(integer(3))},
      {.bits = 32, .data = Stored(integer(4))},
      {.code = 3, .bits = 32, .data = Stored([](std::string& data, double x) {
                                Put(data, static_cast<float>(x));
                              })},
      {.code = 3, .bits = 64, .data = Stored([](std::string& data, double x) { Put(data, x); })},
  };
  for (WavFile file : files) {
    for (const bool extensible : {false, true}) {
      file.extensible = extensible;
      const Audio audio = Read(file.Bytes());
      EXPECT_EQ(audio.rate, 16000);
      EXPECT_EQ(audio.samples, (std::vector<float>{-1, -0.5, 0, 0.25})) << file.bits;
    }
  }
}

TEST_F(WavTest, ChannelsAreAveragedAndOtherPartsSkipped) {
  WavFile file = {.channels = 2, .rate = 44100, .data = {}, .before = "LIST"};
  Put<uint32_t>(file.before, 3);
  file.before += "abc";
  file.before += '\0';  // to an even place
  for (const int x : {16384, 0, -32768, -32768}) Put(file.data, static_cast<int16_t>(x));
  const Audio audio = Read(file.Bytes());
  EXPECT_EQ(audio.rate, 44100);
  EXPECT_EQ(audio.samples, (std::vector<float>{0.25, -1}));
}

TEST_F(WavTest, AStreamsSizeMayBeUnknown) {
  for (const uint32_t stated : {0u, UINT32_MAX}) {
    EXPECT_EQ(Read(WavFile{.data = "aaaab", .stated = stated}.Bytes()).samples.size(), 2u);
  }
}

TEST_F(WavTest, WhatIsWrongIsSaid) {
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_NE(text.find("x.wav: "), std::string::npos) << text;
  };
  const std::string good = WavFile{.data = "aabb"}.Bytes();
  has(ErrorOf(""), "is empty");
  has(ErrorOf("RIFF"), "is no WAV file");
  has(ErrorOf("ID3" + std::string(40, 'x')), "is no WAV file");
  has(ErrorOf(good.substr(0, 12)), "neither format nor data");
  has(ErrorOf(good.substr(0, 36)), "has no data");
  has(ErrorOf(WavFile{}.Bytes()), "has no samples");
  has(ErrorOf(WavFile{.data = "a"}.Bytes()), "has no samples");
  has(ErrorOf(good.substr(0, 46)), "said to be 4 bytes long, but the file ends after 2");
  has(ErrorOf(WavFile{.code = 2, .bits = 4, .data = "ab"}.Bytes()), "format 2 of 4 bits");
  has(ErrorOf(WavFile{.code = 3, .bits = 16, .data = "ab"}.Bytes()), "format 3 of 16 bits");
  has(ErrorOf(WavFile{.channels = 0, .data = "ab"}.Bytes()), "channels expected, found 0");
  has(ErrorOf(WavFile{.channels = 65, .data = "ab"}.Bytes()), "found 65");
  has(ErrorOf(WavFile{.rate = 0, .data = "ab"}.Bytes()), "samples a second expected, found 0");
  has(ErrorOf(WavFile{.rate = UINT32_MAX, .data = "ab"}.Bytes()), "found 4294967295");
  std::string block = good;
  block[32] = 7;
  has(ErrorOf(block), "take 2 bytes, not 7");
  std::string infinite;
  Put(infinite, 0.0f);
  Put(infinite, std::numeric_limits<float>::infinity());
  has(ErrorOf(WavFile{.code = 3, .bits = 32, .data = infinite}.Bytes()), "sample 1 is no number");
  // Cut anywhere: an error or fewer samples, never a crash.
  const std::string full = WavFile{.extensible = true, .data = "aabb"}.Bytes();
  for (size_t size = 0; size < full.size(); ++size) {
    EXPECT_NE(ErrorOf(full.substr(0, size)), "") << size;
  }
}

}  // namespace
}  // namespace thinwire::speech
