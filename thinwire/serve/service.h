// What the server answers, without HTTP: bodies in, replies out.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/infer/chat.h"
#include "thinwire/infer/engine.h"
#include "thinwire/serve/api_request.h"
#include "thinwire/serve/replies.h"
#include "thinwire/serve/worker.h"

namespace thinwire::serve {

struct ServiceLimits {
  int64_t tokens = 1024;  // of an answer
  int64_t queue = 64;     // requests that wait
  int64_t seconds = 600;  // for a request, waiting included
  int64_t guesses = 0;    // tokens that are guessed at once
};

// An answer on its way, and how to write it down.
struct Started {
  std::shared_ptr<Answer> answer;
  Reply reply;
  bool stream = false;
};

// Threads share it.
class Service {
 public:
  // `engine` must outlive this, and is used by nobody else.
  Service(infer::Engine& engine, const ServiceLimits& limits);

  // ApiError: 400 for what the client must change, 429 when the queue is full, 503 at the end.
  Started Complete(std::string_view body);
  Started Chat(std::string_view body);
  // Waits for all of them.
  std::string Embed(std::string_view body);
  std::string Models() const { return ModelList(model_); }
  std::string Metrics() const;
  // Ends all requests.
  void Stop();

 private:
  Started Start(CompletionRequest request);
  std::vector<int32_t> Tokens(const TextOrTokens& text, const std::string& field) const;
  std::vector<int32_t> Prompt(const CompletionRequest& request) const;
  void CheckLength(const std::vector<int32_t>& prompt, const std::string& field,
                   int64_t answer) const;
  std::unique_ptr<infer::GrammarConstraint> Constrain(const text::Grammar& form,
                                                      const std::string& field) const;
  void Enter(std::shared_ptr<Job> job);
  Clock::time_point Deadline() const;
  // Counts what is asked and what is refused.
  template <typename F>
  auto Counted(const F& f);

  infer::Engine& engine_;
  const ServiceLimits limits_;
  const RequestLimits request_limits_;
  const std::string model_;
  std::unique_ptr<const infer::Chat> chat_;  // none where the file has no template
  std::string no_chat_;                      // why
  std::atomic<int64_t> requests_{0}, refused_{0};
  Worker worker_;
};

}  // namespace thinwire::serve
