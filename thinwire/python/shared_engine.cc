#include "thinwire/python/shared_engine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>

#include "thinwire/base/error.h"
#include "thinwire/text/decoder.h"
#include "thinwire/text/tokenizer.h"

namespace thinwire::python {
namespace {

using Clock = std::chrono::steady_clock;

// Ctrl-C is felt at once, and asking does not slow the passes of tiny models.
constexpr std::chrono::milliseconds kBreath{20};

}  // namespace

void FairMutex::lock() {
  std::unique_lock lock(mutex_);
  const uint64_t mine = next_++;
  news_.wait(lock, [&] { return served_ == mine; });
}

void FairMutex::unlock() {
  {
    const std::lock_guard lock(mutex_);
    ++served_;
  }
  news_.notify_all();
}

void Work::Leave() {
  if (engine_) engine_->Cancel(*this);
}

AnswerWork::AnswerWork(const text::Vocabulary& vocabulary, std::vector<std::string> stops,
                       std::unique_ptr<infer::GrammarConstraint> constraint)
    : stream_(vocabulary, std::move(stops),
              [this](std::string_view piece) {
                text_ += piece;
                fresh_ += piece;
                return true;
              }),
      constraint_(std::move(constraint)) {}

bool AnswerWork::OnToken(const infer::Sampled& sampled) {
  tokens_.push_back(sampled.token);
  log_probabilities_.push_back(sampled.log_probability);
  return stream_.OnToken(sampled);
}

void AnswerWork::OnEnd(infer::Finish finish) {
  stream_.OnEnd(finish);
  if (finish == infer::Finish::kStuck) Fail(constraint_->problem());
  Work::OnEnd(finish);
}

std::string_view AnswerWork::finish() const {
  if (stream_.stopped()) return "stop";
  return stream_.finish() == infer::Finish::kEnd ? "end" : "length";
}

void EmbeddingWork::OnHidden(std::span<const float> state) {
  for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += static_cast<double>(state[i]);
}

std::vector<float> EmbeddingWork::Vector() const {
  double squares = 0;
  for (const double value : sum_) squares += value * value;
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  std::vector<float> vector;
  vector.reserve(sum_.size());
  for (const double value : sum_) vector.push_back(static_cast<float>(value * scale));
  return vector;
}

SharedEngine::SharedEngine(std::shared_ptr<infer::Engine> engine)
    : process_(getpid()), engine_(std::move(engine)) {}

void SharedEngine::RefuseChild() const {
  if (getpid() == process_) return;
  throw UsageError(
      "the model was loaded before this process was forked, and its threads are the "
      "parent's: load it here, or start processes with \"spawn\"");
}

void SharedEngine::Enter(const std::shared_ptr<Work>& work, infer::Request request) {
  RefuseChild();
  request.sink = work.get();
  const std::lock_guard lock(mutex_);
  if (closed_) {
    throw UsageError("the weights are incomplete: their last update did not come to its end");
  }
  work->number_ = engine_->scheduler().Submit(std::move(request));
  work->engine_ = shared_from_this();
  live_.emplace(work->number_, work.get());
}

void SharedEngine::Cancel(Work& work) {
  if (getpid() != process_) return;
  const std::lock_guard lock(mutex_);
  if (live_.erase(work.number_) > 0) engine_->scheduler().Cancel(work.number_);
}

// A pass that failed leaves no request that could go on.
void SharedEngine::Step() {
  try {
    engine_->scheduler().Step();
  } catch (const std::exception& error) {
    for (const auto& [number, work] : live_) {
      engine_->scheduler().Cancel(number);
      work->failure_ = error.what();
      work->ended_ = true;
    }
  }
  std::erase_if(live_, [](const auto& entry) { return entry.second->ended_; });
}

void SharedEngine::RunUntil(std::span<const std::shared_ptr<Work>> works,
                            const std::function<bool()>& done,
                            const std::function<void()>& breathe) {
  RefuseChild();
  for (auto breath = Clock::now();;) {
    {
      const std::lock_guard lock(mutex_);
      for (const auto& work : works) {
        if (!work->failure_.empty()) throw UsageError(work->failure_);
      }
      if (done()) return;
      Step();
    }
    if (Clock::now() - breath >= kBreath) {
      breathe();
      breath = Clock::now();
    }
  }
}

std::vector<int32_t> SharedEngine::EncodeChat(std::span<const infer::ChatMessage> messages) {
  const std::lock_guard lock(mutex_);
  if (!chat_) chat_.emplace(engine_->tokenizer(), engine_->chat_template());
  return chat_->Encode(messages);
}

std::vector<int32_t> SharedEngine::Tokenize(std::string_view text, bool add_special,
                                            bool parse_special) const {
  std::vector<int32_t> tokens;
  text::Encoder(engine_->tokenizer())
      .Encode(text, {.add_special = add_special, .parse_special = parse_special}, &tokens);
  return tokens;
}

std::string SharedEngine::Detokenize(std::span<const int32_t> tokens, bool skip_special) const {
  text::Decoder decoder(engine_->tokenizer().vocabulary(), {.skip_special = skip_special});
  std::vector<char> piece(decoder.MaxBytes());
  std::string text;
  for (const int32_t token : tokens) {
    if (token < 0 || token >= engine_->spec().vocabulary) {
      throw UsageError(
          StrCat("tokens: ", token, " is not in the vocabulary of ", engine_->spec().vocabulary));
    }
    text.append(piece.data(), decoder.Append(token, piece));
  }
  return text.append(piece.data(), decoder.Finish(piece));
}

void SharedEngine::Close() {
  RefuseChild();
  const std::lock_guard lock(mutex_);
  infer::Scheduler& scheduler = engine_->scheduler();
  if (scheduler.running() + scheduler.waiting() > 0) {
    throw UsageError(
        "an answer is being written: let it end, or close its stream, before weights "
        "change");
  }
  scheduler.Forget();
  closed_ = true;
}

void SharedEngine::Open() {
  const std::lock_guard lock(mutex_);
  closed_ = false;
}

}  // namespace thinwire::python
