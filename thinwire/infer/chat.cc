#include "thinwire/infer/chat.h"

#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"

namespace thinwire::infer {
namespace {

std::string_view CheckedSource(std::string_view source) {
  if (source.empty()) {
    throw UsageError(
        "tokenizer.chat_template: the file has none, so it does not say how a chat is written; "
        "run it with --raw");
  }
  return source;
}

std::string_view BytesOf(const text::Vocabulary& vocabulary, int32_t id) {
  return id == text::kNoToken ? std::string_view() : vocabulary.Bytes(id);
}

}  // namespace

Chat::Chat(const text::Tokenizer& tokenizer, std::string_view source)
    : tokenizer_(tokenizer), template_(CheckedSource(source)) {}

std::vector<int32_t> Chat::Encode(std::span<const ChatMessage> messages) const {
  const text::Vocabulary& vocabulary = tokenizer_.vocabulary();
  nlohmann::ordered_json variables = {{"messages", nlohmann::ordered_json::array()},
                                      {"add_generation_prompt", true},
                                      {"bos_token", BytesOf(vocabulary, vocabulary.ids().bos)},
                                      {"eos_token", BytesOf(vocabulary, vocabulary.ids().eos)}};
  for (const ChatMessage& message : messages) {
    variables["messages"].push_back(
        {{"role", message.role}, {"content", tokenizer_.Guard(message.content)}});
  }
  std::vector<int32_t> tokens;
  text::Encoder(tokenizer_)
      .Encode(template_.Render(variables),
              {.add_special = false, .parse_special = true, .guarded = true}, &tokens);
  return tokens;
}

}  // namespace thinwire::infer
