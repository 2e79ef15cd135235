// Bodies of requests, checked: what comes out of here can be computed, but for its length.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "thinwire/infer/chat.h"
#include "thinwire/infer/sampler.h"
#include "thinwire/text/grammar.h"

namespace thinwire::serve {

struct RequestLimits {
  int64_t tokens = 1024;   // of an answer
  int64_t vocabulary = 0;  // of the model
  int64_t inputs = 64;     // texts of a request for embeddings
};

using TextOrTokens = std::variant<std::string, std::vector<int32_t>>;

struct CompletionRequest {
  bool chat = false;
  std::vector<infer::ChatMessage> messages;  // of a chat
  TextOrTokens prompt;                       // otherwise
  infer::SamplingOptions sampling;
  std::optional<uint64_t> seed;
  std::optional<int64_t> most_tokens;
  std::vector<std::string> stops;
  bool stream = false;
  bool stream_usage = false;          // a last chunk that counts tokens
  bool log_probabilities = false;     // and of sampling.likeliest tokens beside each
  std::optional<text::Grammar> form;  // of the answer
  std::string form_field;             // that said so
};

struct EmbeddingRequest {
  std::vector<TextOrTokens> inputs;
};

// Each throws ApiError (400) naming the field that is wrong. `body` is what the client sent.
CompletionRequest ParseCompletion(std::string_view body, const RequestLimits& limits);
CompletionRequest ParseChat(std::string_view body, const RequestLimits& limits);
EmbeddingRequest ParseEmbedding(std::string_view body, const RequestLimits& limits);

}  // namespace thinwire::serve
