#include "apps/transcribe.h"

#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "thinwire/base/cpu_features.h"
#include "thinwire/base/error.h"
#include "thinwire/base/weight_type.h"
#include "thinwire/io/file.h"
#include "thinwire/speech/log_mel.h"
#include "thinwire/speech/resample.h"
#include "thinwire/speech/transcriber.h"
#include "thinwire/speech/transcript_text.h"
#include "thinwire/speech/wav.h"

namespace thinwire::app {
namespace {

struct Request {
  std::string audio;
  std::string model;
  int threads = 0;
  int beam = 5;
  std::string weights;
  std::string language;
  bool translate = false;
  bool no_context = false;
  bool srt = false;
  bool json = false;
};

constexpr const char* kHelp =
    "AUDIO is a WAV file of any rate: PCM of 8 to 32 bits or floats; channels are averaged.\n"
    "MODEL is a GGUF file that `thinwire convert` made, or a folder with a Whisper model of\n"
    "CTranslate2: model.bin, config.json, vocabulary.\n"
    "Without --srt or --json, text comes line by line as it is understood. What has no speech in\n"
    "it has no text.\n"
    "Example: thinwire transcribe talk.wav --model whisper-tiny.en --srt > talk.srt\n"
    "docs/transcribe.md tells more.";

std::optional<WeightType> TypeNamed(const std::string& name) {
  if (name.empty()) return std::nullopt;
  const std::optional<WeightType> type = WeightTypeNamed(name);
  if (!type) throw UsageError(StrCat("--weights: no type is called ", name, "; Q8_0 is one"));
  return type;
}

void Transcribe(const Request& request, std::ostream& out) {
  speech::Audio audio = speech::ReadWav(io::RealFileSystem(), request.audio);
  audio.samples = speech::Resample(audio.samples, audio.rate, speech::kSampleRate);
  speech::Transcriber transcriber(request.model,
                                  {.threads = request.threads > 0 ? request.threads : UsableCores(),
                                   .weights = TypeNamed(request.weights),
                                   .beam = request.beam,
                                   .language = request.language,
                                   .translate = request.translate,
                                   .condition = !request.no_context});
  int64_t number = 0;
  const auto report = [&](const speech::SpokenSegment& segment) {
    if (request.json) return;
    out << (request.srt ? speech::SrtText(segment, ++number) : segment.text + '\n') << std::flush;
  };
  const speech::Transcript transcript = transcriber.Run(audio.samples, report);
  if (request.json) out << speech::JsonText(transcript);
}

}  // namespace

void AddTranscribe(CLI::App& app) {
  const auto request = std::make_shared<Request>();
  CLI::App& command =
      *app.add_subcommand("transcribe", "Write down what is said in a WAV file (Whisper)");
  command.footer(kHelp);
  command.add_option("AUDIO", request->audio, "The WAV file")->required();
  command.add_option("-m,--model", request->model, "The model: a GGUF file or a folder")
      ->required();
  command.add_option("-t,--threads", request->threads, "Threads; 0: one for each core")
      ->check(CLI::Range(0, 512));
  command.add_option("--beam", request->beam, "Hypotheses kept at once; 1 is greedy")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  command.add_option("--weights", request->weights,
                     "Keep matrices in this type while running, for speed: Q8_0");
  command.add_option("--language", request->language,
                     "What is spoken, as a code such as de; default: found out");
  command.add_flag("--translate", request->translate, "Write it in English");
  command.add_flag("--no-context", request->no_context,
                   "Let no window of 30 s see the text before it");
  CLI::Option* const srt = command.add_flag("--srt", request->srt, "Write subtitles (SubRip)");
  command.add_flag("--json", request->json, "Write JSON, with times and probabilities")
      ->excludes(srt);
  command.callback([request] { Transcribe(*request, std::cout); });
}

}  // namespace thinwire::app
