#include "thinwire/speech/transcriber.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/speech/log_mel.h"
#include "thinwire/speech/repetition.h"
#include "thinwire/speech/segments.h"
#include "thinwire/speech/speech_gate.h"

namespace thinwire::speech {
namespace {

constexpr int64_t kMaxBeam = 16;
// Of openai/whisper: below this mean logarithmic probability the next temperature is tried ...
constexpr double kLeastMeanLogProbability = -1.0;
// ... and below this one, where none did better, the sound is taken for no speech.
constexpr double kHopeless = -2.0;
// ... unless there is no speech, which this probability and that together say.
constexpr double kNoSpeech = 0.6;
constexpr std::array kTemperatures = {0.0, 0.2, 0.4, 0.6, 0.8, 1.0};
// Text that was drawn this freely shall not lead on what follows.
constexpr double kMostTemperatureBefore = 0.5;
// Where probability of no speech and steadiness of the sound say the same together.
constexpr int64_t kFewChanges = kFramesPerSecond;

}  // namespace

Transcriber::Transcriber(const std::string& path, const TranscriberOptions& options)
    : options_(options), team_(options.threads) {
  if (options.beam < 1 || options.beam > kMaxBeam) {
    throw UsageError(StrCat("beam: 1 to ", kMaxBeam, " expected, found ", options.beam));
  }
  const std::unique_ptr<WhisperModel> model = WhisperModel::Open(path);
  spec_ = model->spec();
  vocabulary_ = std::make_unique<Vocabulary>(model->tokens(), path);
  if (!vocabulary_->multilingual()) {
    if (options.translate || (!options.language.empty() && options.language != "en")) {
      throw UsageError(StrCat(path, ": is a model for English only; ",
                              options.translate ? "it cannot translate" : "language: en expected"));
    }
  } else if (!options.language.empty()) {
    const std::optional<int32_t> id = vocabulary_->LanguageNamed(options.language);
    if (!id) throw UsageError(StrCat("language: the model knows no '", options.language, "'"));
    language_ = *id;
  }
  weights_ = std::make_unique<WhisperWeights>(*model, options.weights, team_);
  // Draws are made as many at once as the beam is wide.
  encoder_ = std::make_unique<Encoder>(spec_, *weights_, team_, plan_);
  decoder_ =
      std::make_unique<Decoder>(spec_, *weights_, team_, Search::LimitsFor(options.beam), plan_);
  memory_ = plan_.Take();
  search_ = std::make_unique<Search>(*decoder_, *vocabulary_, options.beam);
  prompt_.reserve(static_cast<size_t>(spec_.text_positions));
}

// The end of the text before, as much as half of the positions leave room for, then what is to do.
void Transcriber::MakePrompt(std::span<const int32_t> before) {
  prompt_.clear();
  const std::array task = {
      vocabulary_->start(), language_,
      options_.translate ? vocabulary_->translate() : vocabulary_->transcribe()};
  const size_t words = vocabulary_->multilingual() ? task.size() : 1;
  const auto room = static_cast<size_t>(spec_.text_positions / 2) - words - 1;
  if (!before.empty()) {
    const std::span<const int32_t> last = before.last(std::min(before.size(), room));
    prompt_.push_back(vocabulary_->previous());
    prompt_.insert(prompt_.end(), last.begin(), last.end());
  }
  start_ = static_cast<int64_t>(prompt_.size());
  prompt_.insert(prompt_.end(), task.begin(), task.begin() + static_cast<ptrdiff_t>(words));
}

void Transcriber::FindLanguage() {
  const std::array prompt = {vocabulary_->start()};
  search_->Begin(prompt, 0);
  language_ = search_->Language();
}

Transcriber::Window Transcriber::Recognize(std::span<const int32_t> before, uint64_t seed) {
  decoder_->Hear(encoder_->Run());
  if (vocabulary_->multilingual() && language_ < 0) FindLanguage();
  MakePrompt(before);
  Window window;
  window.no_speech = search_->Begin(prompt_, start_);
  for (const double temperature : kTemperatures) {
    window.found = search_->Run(temperature, seed);
    window.temperature = temperature;
    const bool improbable = window.found.mean_log_probability < kLeastMeanLogProbability;
    if (improbable && window.no_speech > kNoSpeech) break;
    if (!improbable && !RepeatsItself(window.found.tokens)) break;
  }
  return window;
}

bool Transcriber::IsNoSpeech(const Window& window, int64_t changes) {
  const double probability = window.found.mean_log_probability;
  if (probability < kHopeless) return true;
  return window.no_speech > kNoSpeech &&
         (probability < kLeastMeanLogProbability || changes < kFewChanges);
}

Transcript Transcriber::Run(std::span<const float> samples,
                            const std::function<void(const SpokenSegment&)>& report) {
  const LogMel log_mel(samples, spec_.mels, team_);
  const SpeechGate gate(log_mel);
  Transcript transcript;
  transcript.seconds = static_cast<double>(samples.size()) / double{kSampleRate};
  const int32_t asked = language_;
  std::vector<int32_t> before;
  for (int64_t seek = 0; seek < log_mel.frames();) {
    const int64_t content = std::min(spec_.frames(), log_mel.frames() - seek);
    if (!gate.MayHoldSpeech(seek, content)) {
      seek += content;
      continue;
    }
    log_mel.Window(seek, spec_.frames(), encoder_->input(), spec_.mels);
    const Window window = Recognize(before, static_cast<uint64_t>(seek));
    if (IsNoSpeech(window, gate.Changes(seek, content))) {
      seek += content;
      continue;
    }
    const Split split = SplitAtTimes(*vocabulary_, window.found.tokens, content);
    for (const TimedTokens& timed : split.segments) {
      const double at = static_cast<double>(seek) / double{kFramesPerSecond};
      SpokenSegment segment = {.begin = at + timed.begin,
                               .end = std::min(at + timed.end, transcript.seconds),
                               .text = TextOf(*vocabulary_, timed.tokens),
                               .mean_log_probability = window.found.mean_log_probability,
                               .no_speech = window.no_speech,
                               .temperature = window.temperature};
      if (segment.text.empty() || segment.begin >= segment.end) continue;
      if (report) report(segment);
      transcript.segments.push_back(std::move(segment));
      before.insert(before.end(), timed.tokens.begin(), timed.tokens.end());
    }
    if (!options_.condition || window.temperature > kMostTemperatureBefore) before.clear();
    seek += split.frames;
  }
  const auto& languages = vocabulary_->languages();
  const auto known = std::ranges::find(languages, language_, &Vocabulary::Language::id);
  transcript.language = known == languages.end() ? "en" : known->code;
  language_ = asked;
  return transcript;
}

}  // namespace thinwire::speech
