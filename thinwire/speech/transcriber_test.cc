#include "thinwire/speech/transcriber.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numbers>

#include "thinwire/io/testing.h"
#include "thinwire/speech/log_mel.h"
#include "thinwire/speech/speech_gate.h"
#include "thinwire/speech/testing.h"
#include "thinwire/speech/transcript_text.h"

namespace thinwire::speech {
namespace {

using Sound = std::function<double(double seconds, size_t i)>;

std::vector<float> Samples(double seconds, const Sound& sound) {
  std::vector<float> samples(static_cast<size_t>(seconds * kSampleRate));
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i] = static_cast<float>(sound(static_cast<double>(i) / kSampleRate, i));
  }
  return samples;
}

double Noise(size_t i) { return CounterRandom(4).Normal(i); }
double Tone(double hertz, double t) { return std::sin(2 * std::numbers::pi * hertz * t); }

// Syllables: sounds of 0.15 s of other pitch and loudness each, a tenth of them silent.
double Syllables(double t, size_t i) {
  const auto n = static_cast<uint64_t>(t / 0.15);
  const double loud = CounterRandom(5).Uniform(n), hertz = 120 + 400 * CounterRandom(6).Uniform(n);
  if (loud < 0.1) return 0;
  double sum = 0.05 * Noise(i) * CounterRandom(7).Uniform(n);
  for (const double k : {1.0, 2.0, 3.0, 5.0}) sum += Tone(k * hertz, t) / k;
  return 0.2 * loud * sum;
}

bool MayHoldSpeech(const std::vector<float>& samples, int64_t mels) {
  ThreadTeam team(1);
  const LogMel log_mel(samples, mels, team);
  return SpeechGate(log_mel).MayHoldSpeech(0, log_mel.frames());
}

TEST(SpeechGate, SteadySoundIsNoSpeech) {
  const std::vector<std::pair<const char*, Sound>> steady = {
      {"silence", [](double, size_t) { return 0.0; }},
      {"last bits", [](double, size_t i) { return std::round(Noise(i)) / 32768; }},
      {"faint noise", [](double, size_t i) { return 0.001 * Noise(i); }},
      {"loud noise", [](double, size_t i) { return 0.3 * Noise(i); }},
      {"tone", [](double t, size_t) { return 0.5 * Tone(440, t); }},
      {"tone that begins", [](double t, size_t) { return t < 3 ? 0 : 0.5 * Tone(440, t); }},
      {"tone that begins and ends",
       [](double t, size_t) { return t < 3 || t > 6 ? 0 : 0.5 * Tone(440, t); }},
      {"tone in noise", [](double t, size_t i) { return 0.1 * Tone(440, t) + 0.05 * Noise(i); }},
      {"hum", [](double t, size_t) { return std::copysign(0.2, Tone(50, t)); }},
  };
  for (const int64_t mels : {80, 128}) {
    for (const auto& [name, sound] : steady) {
      EXPECT_FALSE(MayHoldSpeech(Samples(10, sound), mels)) << name;
    }
  }
}

TEST(SpeechGate, ChangingSoundMayBe) {
  for (const double volume : {1.0, 0.01}) {
    EXPECT_TRUE(MayHoldSpeech(
        Samples(3, [&](double t, size_t i) { return volume * Syllables(t, i); }), 80));
  }
  // In noise as loud as itself, and once in a while.
  EXPECT_TRUE(MayHoldSpeech(
      Samples(10, [](double t, size_t i) { return Syllables(t, i) + 0.05 * Noise(i); }), 80));
  EXPECT_TRUE(MayHoldSpeech(
      Samples(30, [](double t, size_t i) { return t > 20 && t < 22 ? Syllables(t, i) : 0; }), 80));
}

// Only the mels of a real model make sense of sound; everything else is small and random.
WhisperSpec SmallSpec() {
  WhisperSpec spec = TestSpec();
  spec.mels = 80;
  spec.audio_positions = 1500;
  spec.text_positions = 64;
  return spec;
}

class TranscriberTest : public testing::Test {
 protected:
  TranscriberTest() {
    WriteGguf(RandomModel(SmallSpec()), std::nullopt, io::RealFileSystem(), path_);
  }

  std::string ErrorOf(const TranscriberOptions& options, const std::string& path) {
    return io::MessageOf<UsageError>([&] { Transcriber(path, options); });
  }

  io::TestDirectory directory_;
  const std::string path_ = directory_ / "x.gguf";
};

TEST_F(TranscriberTest, SegmentsLieWithinTheSound) {
  Transcriber transcriber(path_, {.threads = 2});
  int64_t reported = 0;
  const std::vector<float> samples = Samples(41.23, Syllables);
  const auto run = [&] {
    return transcriber.Run(samples, [&](const SpokenSegment&) { ++reported; });
  };
  const Transcript transcript = run();
  EXPECT_EQ(transcript.language, "en");
  EXPECT_NEAR(transcript.seconds, 41.23, 1e-4);
  EXPECT_EQ(reported, static_cast<int64_t>(transcript.segments.size()));
  double last = 0;
  for (const SpokenSegment& segment : transcript.segments) {
    EXPECT_GE(segment.begin, last);
    EXPECT_GT(segment.end, segment.begin);
    EXPECT_LE(segment.end, transcript.seconds);
    EXPECT_FALSE(segment.text.empty());
    last = segment.begin;
  }
  EXPECT_EQ(JsonText(run()), JsonText(transcript));  // nothing stays from before
}

TEST_F(TranscriberTest, NoTextWithoutSpeech) {
  Transcriber transcriber(path_, {});
  EXPECT_TRUE(transcriber.Run({}).segments.empty());
  for (const double volume : {0.0, 0.1}) {
    const Transcript transcript =
        transcriber.Run(Samples(35, [&](double, size_t i) { return volume * Noise(i); }));
    EXPECT_TRUE(transcript.segments.empty());
    EXPECT_DOUBLE_EQ(transcript.seconds, 35);
  }
}

TEST_F(TranscriberTest, OptionsThatDoNotFitAreRefused) {
  EXPECT_NE(ErrorOf({.language = "de"}, path_).find("English only"), std::string::npos);
  EXPECT_NE(ErrorOf({.translate = true}, path_).find("cannot translate"), std::string::npos);
  EXPECT_NE(ErrorOf({.beam = 0}, path_).find("beam: 1 to 16"), std::string::npos);
  EXPECT_NE(ErrorOf({.weights = WeightType::kQ6_K}, path_).find("Q6_K"), std::string::npos);
  EXPECT_NO_THROW(Transcriber(path_, {.language = "en"}));
}

TEST_F(TranscriberTest, ModelsOfManyLanguages) {
  WhisperTokens tokens = TestTokens(51865);
  WhisperSpec spec = SmallSpec();
  spec.vocabulary = static_cast<int64_t>(tokens.tokens.size());
  const std::string path = directory_ / "many.gguf";
  WriteGguf(RandomModel(spec, WeightType::kF32, tokens), std::nullopt, io::RealFileSystem(), path);
  EXPECT_NE(ErrorOf({.language = "xx"}, path).find("knows no 'xx'"), std::string::npos);
  const std::vector<float> samples = Samples(2, Syllables);
  Transcriber found(path, {});
  const std::string language = found.Run(samples).language;
  EXPECT_TRUE(language == "en" || language == "de") << language;
  EXPECT_EQ(Transcriber(path, {.language = "de", .translate = true}).Run(samples).language, "de");
}

TEST(TranscriptText, Formats) {
  EXPECT_EQ(TimeText(3723.0456, ','), "01:02:03,046");
  EXPECT_EQ(TimeText(0, '.'), "00:00:00.000");
  const SpokenSegment segment = {.begin = 1.5, .end = 2.25, .text = "One \"two\"."};
  EXPECT_EQ(SrtText(segment, 7), "7\n00:00:01,500 --> 00:00:02,250\nOne \"two\".\n\n");
  const auto json = nlohmann::json::parse(
      JsonText({.language = "en", .seconds = 3, .segments = {segment, segment}}));
  EXPECT_EQ(json["text"], "One \"two\". One \"two\".");
  EXPECT_EQ(json["segments"][1]["begin"], 1.5);
  EXPECT_EQ(json["language"], "en");
}

}  // namespace
}  // namespace thinwire::speech
