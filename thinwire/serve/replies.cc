#include "thinwire/serve/replies.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "thinwire/serve/api_error.h"

namespace thinwire::serve {
namespace {

using Json = nlohmann::ordered_json;

// What JSON has no word for.
constexpr float kLeastLogProbability = -9999;

Json FinishReason(Outcome outcome) {
  if (outcome == Outcome::kUnfinished) return nullptr;
  return outcome == Outcome::kStop ? "stop" : "length";
}

Json Usage(int64_t prompt, int64_t answer) {
  return {
      {"prompt_tokens", prompt}, {"completion_tokens", answer}, {"total_tokens", prompt + answer}};
}

std::string AsEvent(const Json& value) { return StrCat("data: ", Dump(value), "\n\n"); }

float Finite(float log_probability) {
  return log_probability >= kLeastLogProbability ? log_probability : kLeastLogProbability;
}

Json Entry(const TokenText& token) {
  Json bytes = Json::array();
  for (const char c : token.bytes) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", token.bytes},
          {"logprob", Finite(token.log_probability)},
          {"bytes", std::move(bytes)}};
}

}  // namespace

Reply::Reply(Form form, int64_t number)
    : form_(std::move(form)),
      created_(std::time(nullptr)),
      id_(StrCat(form_.chat ? "chatcmpl-" : "cmpl-", created_, "-", number)) {}

Json Reply::Frame(bool event) const {
  const char* const object = !form_.chat ? "text_completion"
                             : event     ? "chat.completion.chunk"
                                         : "chat.completion";
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", form_.model}};
}

Json Reply::LogProbabilities(const std::vector<AnswerToken>& tokens) {
  if (!form_.log_probabilities) return nullptr;
  Json list = Json::array(), texts = Json::array(), values = Json::array(), offsets = Json::array();
  // Where they were asked for; a list by tokens in a chat, a name and a value otherwise.
  Json tops = Json::array();
  for (const AnswerToken& token : tokens) {
    Json entry = Entry(token), top = Json::array(), named = Json::object();
    for (const TokenText& likely : token.likeliest) {
      top.push_back(Entry(likely));
      named[likely.bytes] = Finite(likely.log_probability);
    }
    entry["top_logprobs"] = std::move(top);
    list.push_back(std::move(entry));
    tops.push_back(std::move(named));
    texts.push_back(token.bytes);
    values.push_back(Finite(token.log_probability));
    offsets.push_back(offset_);
    offset_ += std::ssize(token.bytes);
  }
  if (form_.chat) return {{"content", std::move(list)}};
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", form_.likeliest ? std::move(tops) : Json()},
          {"text_offset", std::move(offsets)}};
}

std::string Reply::Whole(const Piece& piece, const Answer& answer) {
  Json choice = {{"index", 0}};
  if (form_.chat) {
    choice["message"] = {{"role", "assistant"}, {"content", piece.text}};
  } else {
    choice["text"] = piece.text;
  }
  choice["logprobs"] = LogProbabilities(piece.tokens);
  choice["finish_reason"] = FinishReason(piece.outcome);
  Json body = Frame(false);
  body["choices"] = Json::array({std::move(choice)});
  body["usage"] = Usage(answer.prompt_tokens(), answer.tokens());
  return Dump(body);
}

std::string Reply::Event(const Piece& piece) {
  if (piece.text.empty() && piece.outcome == Outcome::kUnfinished) return "";
  Json choice = {{"index", 0}};
  if (form_.chat) {
    choice["delta"] = Json::object();
    if (!std::exchange(begun_, true)) choice["delta"]["role"] = "assistant";
    if (!piece.text.empty()) choice["delta"]["content"] = piece.text;
  } else {
    choice["text"] = piece.text;
  }
  choice["logprobs"] = LogProbabilities(piece.tokens);
  choice["finish_reason"] = FinishReason(piece.outcome);
  Json body = Frame(true);
  body["choices"] = Json::array({std::move(choice)});
  return AsEvent(body);
}

std::string Reply::End(const Answer& answer) const {
  std::string events;
  if (form_.usage) {
    Json body = Frame(true);
    body["choices"] = Json::array();
    body["usage"] = Usage(answer.prompt_tokens(), answer.tokens());
    events = AsEvent(body);
  }
  return events + "data: [DONE]\n\n";
}

std::string ModelList(const std::string& model) {
  return Dump(
      {{"object", "list"},
       {"data",
        Json::array(
            {{{"id", model}, {"object", "model"}, {"created", 0}, {"owned_by", "thinwire"}}})}});
}

std::string EmbeddingList(const std::string& model, const std::vector<std::vector<float>>& vectors,
                          int64_t tokens) {
  Json data = Json::array();
  for (const auto& vector : vectors) {
    data.push_back({{"object", "embedding"}, {"index", std::ssize(data)}, {"embedding", vector}});
  }
  return Dump({{"object", "list"},
               {"data", std::move(data)},
               {"model", model},
               {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
}

std::string Metrics(const WorkerCounts& counts, int64_t requests, int64_t refused) {
  std::ostringstream out;
  const auto add = [&](const char* name, const char* type, const char* help, auto value) {
    out << "# HELP thinwire_" << name << ' ' << help << "\n# TYPE thinwire_" << name << ' ' << type
        << "\nthinwire_" << name << ' ' << value << '\n';
  };
  add("requests_total", "counter", "Requests for answers and embeddings.", requests);
  add("requests_refused_total", "counter", "Of these, refused with an error.", refused);
  add("requests_cancelled_total", "counter", "Cut off: the client left or time was over.",
      counts.cancelled);
  add("requests_running", "gauge", "Requests that are being computed.", counts.running);
  add("requests_waiting", "gauge", "Requests in the queue.", counts.waiting);
  add("prompt_tokens_total", "counter", "Tokens of all prompts.", counts.prompt_tokens);
  add("prompt_tokens_reused_total", "counter", "Of these, known from an earlier request.",
      counts.reused_tokens);
  add("answer_tokens_total", "counter", "Tokens of answers that ended.", counts.answer_tokens);
  add("guessed_tokens_total", "counter", "Tokens that were guessed.", counts.guessed_tokens);
  add("right_guesses_total", "counter", "Of these, right.", counts.right_guesses);
  add("passes_total", "counter", "Forward passes.", counts.passes);
  add("busy_seconds_total", "counter", "Time spent in them.", counts.busy_seconds);
  return out.str();
}

}  // namespace thinwire::serve
