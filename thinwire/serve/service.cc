#include "thinwire/serve/service.h"

#include <algorithm>
#include <filesystem>
#include <random>
#include <utility>

#include "thinwire/serve/api_error.h"

namespace thinwire::serve {
namespace {

constexpr int kTooManyRequests = 429;
constexpr int kGatewayTimeout = 504;
constexpr int kServerError = 500;

}  // namespace

Service::Service(infer::Engine& engine, const ServiceLimits& limits)
    : engine_(engine),
      limits_(limits),
      request_limits_({.tokens = limits.tokens, .vocabulary = engine.spec().vocabulary}),
      model_(std::filesystem::path(engine.path()).stem().string()),
      worker_(engine, limits.queue) {
  try {
    chat_ = std::make_unique<infer::Chat>(engine.tokenizer(), engine.chat_template());
  } catch (const UsageError& error) {
    no_chat_ = error.what();
  }
}

template <typename F>
auto Service::Counted(const F& f) {
  ++requests_;
  try {
    return f();
  } catch (const UsageError&) {
    ++refused_;
    throw;
  }
}

Started Service::Complete(std::string_view body) {
  return Counted([&] { return Start(ParseCompletion(body, request_limits_)); });
}

Started Service::Chat(std::string_view body) {
  return Counted([&] { return Start(ParseChat(body, request_limits_)); });
}

std::vector<int32_t> Service::Tokens(const TextOrTokens& text, const std::string& field) const {
  if (const auto* const tokens = std::get_if<std::vector<int32_t>>(&text)) {
    if (tokens->empty()) throw BadField(field, "is empty; one token at least is needed");
    return *tokens;
  }
  std::vector<int32_t> tokens;
  text::Encoder(engine_.tokenizer()).Encode(std::get<std::string>(text), {}, &tokens);
  if (tokens.empty()) throw BadField(field, "is empty; one token at least is needed");
  return tokens;
}

std::vector<int32_t> Service::Prompt(const CompletionRequest& request) const {
  if (!request.chat) return Tokens(request.prompt, "prompt");
  if (chat_ == nullptr) throw ApiError(400, "messages", no_chat_);
  try {
    return chat_->Encode(request.messages);
  } catch (const UsageError& error) {
    throw BadField("messages", error.what());
  }
}

void Service::CheckLength(const std::vector<int32_t>& prompt, const std::string& field,
                          int64_t answer) const {
  if (std::ssize(prompt) + answer <= engine_.context()) return;
  throw BadField(field, StrCat(prompt.size(), " tokens and ", answer,
                               " of an answer do not fit the context of ", engine_.context()));
}

Clock::time_point Service::Deadline() const {
  return Clock::now() + std::chrono::seconds(limits_.seconds);
}

void Service::Enter(std::shared_ptr<Job> job) {
  if (worker_.Enter(std::move(job))) return;
  throw ApiError(kTooManyRequests, "",
                 StrCat("the queue of ", limits_.queue, " requests is full; try again later"));
}

std::unique_ptr<infer::GrammarConstraint> Service::Constrain(const text::Grammar& form,
                                                             const std::string& field) const {
  try {
    return std::make_unique<infer::GrammarConstraint>(form, engine_.token_trie(),
                                                      engine_.spec().vocabulary);
  } catch (const UsageError& error) {
    throw BadField(field, error.what());
  }
}

Started Service::Start(CompletionRequest request) {
  infer::Request work;
  work.prompt = Prompt(request);
  const std::string field = request.chat ? "messages" : "prompt";
  CheckLength(work.prompt, field, 1);
  work.most_tokens = std::min(request.most_tokens.value_or(limits_.tokens),
                              engine_.context() - std::ssize(work.prompt));
  work.guesses = limits_.guesses;
  work.sampling = std::move(request.sampling);
  const bool likeliest = work.sampling.likeliest > 0;
  work.sampling.seed = request.seed.value_or(std::random_device()());
  infer::CheckSampling(work.sampling, engine_.spec().vocabulary);
  Answer::Form form = {.stops = std::move(request.stops), .constraint = nullptr};
  if (request.form) form.constraint = Constrain(*request.form, request.form_field);
  const auto answer = std::make_shared<Answer>(engine_.tokenizer().vocabulary(), std::move(work),
                                               std::move(form), Deadline());
  Enter(answer);
  return {.answer = answer,
          .reply = Reply({.model = model_,
                          .chat = request.chat,
                          .log_probabilities = request.log_probabilities,
                          .likeliest = likeliest,
                          .usage = request.stream_usage},
                         requests_),
          .stream = request.stream};
}

std::string Service::Embed(std::string_view body) {
  return Counted([&] {
    const EmbeddingRequest request = ParseEmbedding(body, request_limits_);
    std::vector<std::vector<int32_t>> inputs;
    for (const TextOrTokens& input : request.inputs) {
      inputs.push_back(Tokens(input, "input"));
      CheckLength(inputs.back(), "input", 1);
    }
    std::vector<std::vector<float>> vectors;
    int64_t tokens = 0;
    for (auto& input : inputs) {
      const auto job =
          std::make_shared<Embedding>(std::move(input), engine_.spec().hidden, Deadline());
      Enter(job);
      // The worker ends every job by its deadline.
      while (!job->Wait(std::chrono::seconds(1))) {
      }
      if (job->outcome() == Outcome::kTimeout) {
        throw ApiError(kGatewayTimeout, "", StrCat("no result in ", limits_.seconds, " s"));
      }
      if (job->outcome() == Outcome::kFailed) throw ApiError(kServerError, "", job->failure());
      vectors.push_back(job->Vector());
      tokens += job->tokens();
    }
    return EmbeddingList(model_, vectors, tokens);
  });
}

std::string Service::Metrics() const {
  return serve::Metrics(worker_.counts(), requests_, refused_);
}

void Service::Stop() { worker_.Stop(); }

}  // namespace thinwire::serve
