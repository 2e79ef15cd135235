#include "thinwire/serve/api_request.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "thinwire/serve/answer_form.h"
#include "thinwire/serve/api_error.h"
#include "thinwire/serve/fields.h"

namespace thinwire::serve {
namespace {

using nlohmann::json;

// OpenAI's own bound.
constexpr double kMostBias = 100;
constexpr int64_t kMostTopTokens = 20;
constexpr size_t kMostStops = 16;
constexpr size_t kMostStopBytes = 1024;
constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

json ParseJson(std::string_view body) {
  try {
    return json::parse(body);
  } catch (const json::exception& error) {
    const std::string_view what = error.what();  // begins with "[json.exception...] "
    const size_t begin = what.find("] ");
    throw ApiError(400, "",
                   StrCat("the body is no JSON: ",
                          begin == std::string_view::npos ? what : what.substr(begin + 2)));
  }
}

int32_t ReadToken(const json& value, const std::string& field, int64_t vocabulary) {
  if (!value.is_number_integer()) {
    throw BadField(field, StrCat("tokens are integers, not ", KindOf(value)));
  }
  // A negative one is no unsigned one; an unsigned one may be too large for a signed one.
  const bool in_range =
      value.is_number_unsigned() && value.get<uint64_t>() < static_cast<uint64_t>(vocabulary);
  if (!in_range) {
    throw BadField(field,
                   StrCat("token ", value.dump(), " is not in the vocabulary of ", vocabulary));
  }
  return static_cast<int32_t>(value.get<int64_t>());
}

// A string or an array of tokens.
TextOrTokens ReadText(const json& value, const std::string& field, int64_t vocabulary) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) {
    throw BadField(field, StrCat("must be a string or an array of tokens, is ", KindOf(value)));
  }
  std::vector<int32_t> tokens;
  tokens.reserve(value.size());
  for (const json& token : value) tokens.push_back(ReadToken(token, field, vocabulary));
  return tokens;
}

// One or an array of them.
std::vector<TextOrTokens> ReadTexts(Fields& fields, std::string_view name, int64_t most,
                                    int64_t vocabulary) {
  const std::string field = fields.Path(name);
  const json* const value = fields.Find(name);
  if (value == nullptr) throw BadField(field, "is missing");
  const bool several = value->is_array() && !value->empty() && !value->front().is_number();
  if (!several) return {ReadText(*value, field, vocabulary)};
  if (std::ssize(*value) > most) {
    throw BadField(field, StrCat(value->size(), " of them, at most ", most, " in a request"));
  }
  std::vector<TextOrTokens> texts;
  for (const json& text : *value) texts.push_back(ReadText(text, field, vocabulary));
  return texts;
}

void ReadBias(Fields& fields, int64_t vocabulary, infer::SamplingOptions& sampling) {
  const json* const bias = fields.Find("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) {
    throw BadField("logit_bias", StrCat("must be an object of tokens, is ", KindOf(*bias)));
  }
  Fields values(*bias, "logit_bias.");
  for (const auto& [name, unused] : bias->items()) {
    int32_t token = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), token);
    if (error != std::errc() || end != name.data() + name.size() || token < 0 ||
        token >= vocabulary) {
      throw BadField("logit_bias",
                     StrCat("\"", name, "\" is not a token of the vocabulary of ", vocabulary));
    }
    const double value = values.Number(name, 0, -kMostBias, kMostBias);
    sampling.logit_bias.emplace_back(token, static_cast<float>(value));
  }
}

std::vector<std::string> ReadStops(Fields& fields) {
  const json* const value = fields.Find("stop");
  if (value == nullptr) return {};
  std::vector<std::string> stops;
  const json list = value->is_array() ? *value : json::array({*value});
  if (list.size() > kMostStops) {
    throw BadField("stop", StrCat(list.size(), " texts, at most ", kMostStops));
  }
  for (const json& stop : list) {
    if (!stop.is_string()) {
      throw BadField("stop", StrCat("must be a string or an array of them, holds ", KindOf(stop)));
    }
    stops.push_back(stop.get<std::string>());
    if (stops.back().empty() || stops.back().size() > kMostStopBytes) {
      throw BadField("stop", StrCat("a text of ", stops.back().size(), " bytes; 1 to ",
                                    kMostStopBytes, " are possible"));
    }
  }
  return stops;
}

void ReadSampling(Fields& fields, const RequestLimits& limits, CompletionRequest& request) {
  infer::SamplingOptions& sampling = request.sampling;
  sampling.temperature = fields.Number("temperature", sampling.temperature, 0, 2);
  sampling.top_p = fields.Number("top_p", sampling.top_p, 1e-6, 1);
  sampling.min_p = fields.Number("min_p", sampling.min_p, 0, 1);
  sampling.top_k = fields.Integer("top_k", sampling.top_k, 0, limits.vocabulary);
  sampling.repetition_penalty =
      fields.Number("repetition_penalty", sampling.repetition_penalty, 0.01, 100);
  if (fields.Find("seed") != nullptr) {
    request.seed = static_cast<uint64_t>(fields.Integer("seed", 0, -kLargest - 1, kLargest));
  }
  ReadBias(fields, limits.vocabulary, sampling);
}

// What both kinds have.
void ReadCommon(Fields& fields, const RequestLimits& limits, CompletionRequest& request) {
  ReadSampling(fields, limits, request);
  for (const char* const name : {"max_tokens", "max_completion_tokens"}) {
    if (fields.Find(name) == nullptr) continue;
    request.most_tokens = fields.Integer(name, 1, 1, limits.tokens);
  }
  request.stops = ReadStops(fields);
  request.stream = fields.Bool("stream", false);
  if (const json* const options = fields.Find("stream_options")) {
    Fields inner(*options, "stream_options.");
    request.stream_usage = inner.Bool("include_usage", false);
    inner.RefuseOthers();
  }
  fields.String("model", "");  // there is one only
  fields.Only("n", {1});
  fields.Only("frequency_penalty", {0});
  fields.Only("presence_penalty", {0});
  fields.Ignore(
      {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"});
}

void ReadForm(Fields& fields, std::string_view body, CompletionRequest& request) {
  if (std::optional<AnswerForm> form = ReadAnswerForm(fields, body)) {
    request.form = std::move(form->grammar);
    request.form_field = std::move(form->field);
  }
}

std::string ReadContent(const json& content, const std::string& field) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    throw BadField(field, StrCat("must be a string or an array of texts, is ", KindOf(content)));
  }
  std::string text;
  for (const json& part : content) {
    Fields fields(part, field + ".");
    fields.Only("type", {"text"});
    text += fields.String("text", "");
  }
  return text;
}

std::vector<infer::ChatMessage> ReadMessages(Fields& fields) {
  const json* const value = fields.Find("messages");
  if (value == nullptr) throw BadField("messages", "is missing");
  if (!value->is_array() || value->empty()) {
    throw BadField("messages", "must be an array with at least one message");
  }
  std::vector<infer::ChatMessage> messages;
  for (const json& one : *value) {
    const std::string prefix = StrCat("messages[", messages.size(), "].");
    Fields message(one, prefix);
    infer::ChatMessage& read = messages.emplace_back();
    read.role = message.String("role", "");
    if (read.role.empty()) throw BadField(prefix + "role", "is missing");
    const json* const content = message.Find("content");
    if (content == nullptr) throw BadField(prefix + "content", "is missing");
    read.content = ReadContent(*content, prefix + "content");
    message.Ignore({"name", "refusal", "annotations", "audio"});
    message.Only("tool_calls", {json::array()});
    message.RefuseOthers();
  }
  return messages;
}

}  // namespace

CompletionRequest ParseCompletion(std::string_view body, const RequestLimits& limits) {
  const json parsed = ParseJson(body);
  Fields fields(parsed);
  CompletionRequest request;
  request.prompt = ReadTexts(fields, "prompt", 1, limits.vocabulary).front();
  ReadCommon(fields, limits, request);
  ReadForm(fields, body, request);
  request.log_probabilities = fields.Find("logprobs") != nullptr;
  request.sampling.likeliest = fields.Integer("logprobs", 0, 0, kMostTopTokens);
  fields.Only("best_of", {1});
  fields.Only("echo", {false});
  fields.Only("suffix", {""});
  fields.RefuseOthers();
  return request;
}

CompletionRequest ParseChat(std::string_view body, const RequestLimits& limits) {
  const json parsed = ParseJson(body);
  Fields fields(parsed);
  CompletionRequest request;
  request.chat = true;
  request.messages = ReadMessages(fields);
  ReadCommon(fields, limits, request);
  ReadForm(fields, body, request);
  request.log_probabilities = fields.Bool("logprobs", false);
  request.sampling.likeliest = fields.Integer("top_logprobs", 0, 0, kMostTopTokens);
  if (request.sampling.likeliest > 0 && !request.log_probabilities) {
    throw BadField("top_logprobs", "needs \"logprobs\": true");
  }
  fields.Only("tools", {json::array()});
  fields.Only("tool_choice", {"none", "auto"});
  fields.Only("modalities", {json::array({"text"})});
  fields.Ignore({"parallel_tool_calls"});
  fields.RefuseOthers();
  return request;
}

EmbeddingRequest ParseEmbedding(std::string_view body, const RequestLimits& limits) {
  const json parsed = ParseJson(body);
  Fields fields(parsed);
  EmbeddingRequest request;
  request.inputs = ReadTexts(fields, "input", limits.inputs, limits.vocabulary);
  fields.String("model", "");
  fields.Only("encoding_format", {"float"});
  fields.Ignore({"user"});
  fields.RefuseOthers();
  return request;
}

}  // namespace thinwire::serve
