#include "thinwire/infer/chat.h"

#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"

namespace thinwire::infer {
namespace {

// Cuts a control token that a message spells out: a noncharacter (U+FDD0), which no text has a use
// for. Templates hand it on, and the text is encoded in parts, cut where it stands.
constexpr std::string_view kCut = "\xef\xb7\x90";

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

void Replace(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

Chat::Chat(const text::Tokenizer& tokenizer, std::string_view source)
    : tokenizer_(tokenizer), template_(CheckedSource(source)) {
  const text::Vocabulary& vocabulary = tokenizer.vocabulary();
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.Type(id) == text::TokenType::kControl && !vocabulary.Bytes(id).empty()) {
      controls_.push_back(vocabulary.Bytes(id));
    }
  }
}

std::string Chat::Guarded(const std::string& content) const {
  std::string guarded = content;
  Replace(guarded, kCut, "\xef\xbf\xbd");
  for (const std::string_view control : controls_) {
    if (guarded.find(control) == std::string::npos) continue;
    Replace(guarded, control, StrCat(control.substr(0, 1), kCut, control.substr(1)));
  }
  return guarded;
}

std::vector<int32_t> Chat::Encode(std::span<const ChatMessage> messages) const {
  const text::Vocabulary& vocabulary = tokenizer_.vocabulary();
  nlohmann::ordered_json variables = {{"messages", nlohmann::ordered_json::array()},
                                      {"add_generation_prompt", true},
                                      {"bos_token", BytesOf(vocabulary, vocabulary.ids().bos)},
                                      {"eos_token", BytesOf(vocabulary, vocabulary.ids().eos)}};
  for (const ChatMessage& message : messages) {
    variables["messages"].push_back(
        {{"role", message.role}, {"content", Guarded(message.content)}});
  }
  const std::string text = template_.Render(variables);
  text::Encoder encoder(tokenizer_);
  std::vector<int32_t> tokens;
  std::string_view rest = text;
  for (;;) {
    const size_t cut = rest.find(kCut);
    encoder.Encode(rest.substr(0, cut), {.add_special = false, .parse_special = true}, &tokens);
    if (cut == std::string_view::npos) return tokens;
    rest.remove_prefix(cut + kCut.size());
  }
}

}  // namespace thinwire::infer
