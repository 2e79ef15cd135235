#include "thinwire/serve/job.h"

#include <cmath>
#include <utility>

namespace thinwire::serve {

void Job::End(Outcome outcome) {
  const std::lock_guard lock(mutex_);
  if (outcome_ == Outcome::kUnfinished) outcome_ = outcome;
  news_.notify_all();
}

void Job::Abort() { End(Outcome::kTimeout); }

void Job::Fail(const std::string& message) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = message;
  }
  End(Outcome::kFailed);
}

Outcome Job::outcome() const {
  const std::lock_guard lock(mutex_);
  return outcome_;
}

std::string Job::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Answer::Answer(const text::Vocabulary& vocabulary, infer::Request request, Form form,
               Clock::time_point deadline)
    : Job(deadline),
      vocabulary_(vocabulary),
      request_(std::move(request)),
      constraint_(std::move(form.constraint)),
      prompt_tokens_(std::ssize(request_.prompt)),
      stream_(vocabulary, std::move(form.stops), [this](std::string_view text) {
        const std::lock_guard lock(mutex_);
        piece_.text += text;
        return true;
      }) {}

infer::Request Answer::MakeRequest() {
  request_.sink = this;
  request_.constraint = constraint_.get();
  return std::move(request_);
}

TokenText Answer::TextOf(const infer::TokenProbability& token) const {
  // A padded row of the embedding has no text.
  const bool known = token.token < vocabulary_.size();
  return {std::string(known ? vocabulary_.Bytes(token.token) : std::string_view()),
          token.log_probability};
}

bool Answer::OnToken(const infer::Sampled& sampled) {
  if (Unwanted()) return false;
  {
    const std::lock_guard lock(mutex_);
    ++tokens_;
    AnswerToken& token = piece_.tokens.emplace_back();
    static_cast<TokenText&>(token) = TextOf({sampled.token, sampled.log_probability});
    for (const auto& each : sampled.likeliest) token.likeliest.push_back(TextOf(each));
  }
  const bool goes_on = stream_.OnToken(sampled);
  news_.notify_all();
  return goes_on;
}

void Answer::OnEnd(infer::Finish finish) {
  stream_.OnEnd(finish);
  if (finish == infer::Finish::kStuck) return Fail(constraint_->problem());
  if (stream_.finish() == infer::Finish::kEnd) return End(Outcome::kStop);
  End(finish == infer::Finish::kLength ? Outcome::kLength : Outcome::kTimeout);
}

Piece Answer::Next(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, patience,
                 [this] { return !piece_.text.empty() || outcome_ != Outcome::kUnfinished; });
  piece_.outcome = outcome_;
  return std::exchange(piece_, {});
}

int64_t Answer::tokens() const {
  const std::lock_guard lock(mutex_);
  return tokens_;
}

Embedding::Embedding(std::vector<int32_t> tokens, int64_t hidden, Clock::time_point deadline)
    : Job(deadline),
      prompt_(std::move(tokens)),
      count_(std::ssize(prompt_)),
      sum_(static_cast<size_t>(hidden)) {}

infer::Request Embedding::MakeRequest() {
  infer::Request request;
  request.prompt = std::move(prompt_);
  request.most_tokens = 1;
  request.sink = this;
  request.hidden = this;
  return request;
}

void Embedding::OnHidden(std::span<const float> state) {
  for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += static_cast<double>(state[i]);
}

void Embedding::OnEnd(infer::Finish) { End(Outcome::kStop); }

bool Embedding::Wait(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return news_.wait_for(lock, patience, [this] { return outcome_ != Outcome::kUnfinished; });
}

std::vector<float> Embedding::Vector() const {
  double squares = 0;
  for (const double value : sum_) squares += value * value;
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  std::vector<float> vector;
  vector.reserve(sum_.size());
  for (const double value : sum_) vector.push_back(static_cast<float>(value * scale));
  return vector;
}

}  // namespace thinwire::serve
