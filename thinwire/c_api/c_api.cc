#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "include/thinwire.h"
#include "thinwire/base/error.h"
#include "thinwire/infer/chat.h"
#include "thinwire/infer/engine.h"
#include "thinwire/infer/grammar_constraint.h"
#include "thinwire/infer/text_stream.h"
#include "thinwire/text/gbnf.h"
#include "thinwire/text/json_schema.h"

struct thinwire_model {
  explicit thinwire_model(const std::string& path, const thinwire::infer::EngineOptions& options)
      : engine(path, options) {}

  thinwire::infer::Engine engine;
  std::unique_ptr<thinwire::infer::Chat> chat;  // made when it is first asked for
};

namespace {

using namespace thinwire;  // NOLINT: a file of glue in the global namespace

void Tell(const char* what, char* error, size_t error_size) {
  if (error == nullptr || error_size == 0) return;
  std::strncpy(error, what, error_size - 1);
  error[error_size - 1] = '\0';
}

// No exception may reach C.
template <typename Result, typename Body>
Result Guard(Result failed, char* error, size_t error_size, const Body& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    Tell("out of memory", error, error_size);
  } catch (const std::exception& caught) {
    Tell(caught.what(), error, error_size);
  } catch (...) {
    Tell("unknown error", error, error_size);
  }
  return failed;
}

std::string Text(const char* text) { return text == nullptr ? "" : text; }

std::vector<int32_t> TokensOf(thinwire_model& model, const thinwire_request& request) {
  if (request.prompt == nullptr) throw UsageError("prompt: NULL; a text is needed");
  if (request.raw != 0) {
    std::vector<int32_t> tokens;
    text::Encoder(model.engine.tokenizer())
        .Encode(request.prompt, {.add_special = true, .parse_special = true}, &tokens);
    return tokens;
  }
  if (!model.chat) {
    model.chat =
        std::make_unique<infer::Chat>(model.engine.tokenizer(), model.engine.chat_template());
  }
  std::vector<infer::ChatMessage> messages;
  if (request.system != nullptr) messages.push_back({"system", request.system});
  messages.push_back({"user", request.prompt});
  return model.chat->Encode(messages);
}

// Null where any text will do.
std::unique_ptr<infer::GrammarConstraint> ConstraintOf(const thinwire_model& model,
                                                       const thinwire_request& request) {
  if (request.grammar == nullptr && request.json_schema == nullptr) return nullptr;
  if (request.grammar != nullptr && request.json_schema != nullptr) {
    throw UsageError("grammar and json_schema: an answer has one form; one of them must be NULL");
  }
  const text::Grammar grammar = request.grammar != nullptr
                                    ? text::ParseGbnf(request.grammar)
                                    : text::GrammarOfSchema(request.json_schema);
  return std::make_unique<infer::GrammarConstraint>(grammar, model.engine.token_trie(),
                                                    model.engine.spec().vocabulary);
}

thinwire_result Generate(thinwire_model& model, const thinwire_request& request, thinwire_show show,
                         void* user) {
  std::vector<std::string> stops;
  for (const char* const* stop = request.stops; stop != nullptr && *stop != nullptr; ++stop) {
    stops.push_back(*stop);
  }
  std::string terminated;  // pieces are no C strings
  infer::TextStream stream(model.engine.tokenizer().vocabulary(), std::move(stops),
                           [&](std::string_view piece) {
                             if (show == nullptr) return true;
                             terminated = piece;
                             return show(terminated.c_str(), terminated.size(), user) == 0;
                           });
  const auto constraint = ConstraintOf(model, request);
  infer::Scheduler& scheduler = model.engine.scheduler();
  scheduler.Submit({.prompt = TokensOf(model, request),
                    .sampling = {.temperature = request.temperature,
                                 .top_k = request.top_k,
                                 .top_p = request.top_p,
                                 .min_p = request.min_p,
                                 .repetition_penalty = request.repetition_penalty,
                                 .seed = request.seed,
                                 .logit_bias = {}},
                    .most_tokens = request.tokens,
                    .guesses = request.guesses,
                    .sink = &stream,
                    .constraint = constraint.get()});
  while (scheduler.Step()) {
  }
  switch (stream.finish()) {
    case infer::Finish::kEnd:
      return THINWIRE_ENDED;
    case infer::Finish::kLength:
      return THINWIRE_CUT_OFF;
    case infer::Finish::kStopped:
      return THINWIRE_STOPPED;
    case infer::Finish::kStuck:
      throw UsageError(constraint->problem());
  }
  return THINWIRE_FAILED;
}

}  // namespace

extern "C" {

const char* thinwire_version(void) { return THINWIRE_VERSION; }

thinwire_model* thinwire_load(const char* path, const thinwire_options* options, char* error,
                              size_t error_size) {
  return Guard<thinwire_model*>(nullptr, error, error_size, [&] {
    infer::EngineOptions chosen;
    if (options != nullptr) {
      chosen.threads = options->threads;
      chosen.context = options->context;
      chosen.draft = Text(options->draft);
      if (options->batch != 0) chosen.batch = options->batch;
      if (options->kv_type != nullptr) chosen.kv_type = kernels::KvTypeNamed(options->kv_type);
    }
    return new thinwire_model(Text(path), chosen);
  });
}

void thinwire_free(thinwire_model* model) { delete model; }

thinwire_request thinwire_request_defaults(void) {
  const infer::SamplingOptions sampling;
  const infer::Request request;
  return {.prompt = nullptr,
          .system = nullptr,
          .raw = 0,
          .tokens = request.most_tokens,
          .temperature = sampling.temperature,
          .top_k = sampling.top_k,
          .top_p = sampling.top_p,
          .min_p = sampling.min_p,
          .repetition_penalty = sampling.repetition_penalty,
          .seed = sampling.seed,
          .stops = nullptr,
          .guesses = 0,
          .grammar = nullptr,
          .json_schema = nullptr};
}

thinwire_result thinwire_generate(thinwire_model* model, const thinwire_request* request,
                                  thinwire_show show, void* user, char* error, size_t error_size) {
  return Guard(THINWIRE_FAILED, error, error_size, [&] {
    if (model == nullptr || request == nullptr) throw UsageError("model or request: NULL");
    return Generate(*model, *request, show, user);
  });
}

int64_t thinwire_tokenize(thinwire_model* model, const char* text, int32_t* tokens, int64_t size,
                          char* error, size_t error_size) {
  return Guard<int64_t>(-1, error, error_size, [&] {
    if (model == nullptr || text == nullptr) throw UsageError("model or text: NULL");
    std::vector<int32_t> ids;
    text::Encoder(model->engine.tokenizer())
        .Encode(text, {.add_special = true, .parse_special = false}, &ids);
    if (tokens != nullptr) {
      std::copy_n(ids.begin(), std::clamp<int64_t>(size, 0, std::ssize(ids)), tokens);
    }
    return static_cast<int64_t>(std::ssize(ids));
  });
}

}  // extern "C"
