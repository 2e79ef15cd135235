// Messages of a chat as the tokens that a model was tuned on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/text/chat_template.h"
#include "thinwire/text/tokenizer.h"

namespace thinwire::infer {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

class Chat {
 public:
  // `source` is the file's tokenizer.chat_template. UsageError where it is empty or no template.
  // `tokenizer` must outlive this.
  Chat(const text::Tokenizer& tokenizer, std::string_view source);

  // With what begins an answer at the end. What a message says never becomes a control token, even
  // where it spells one out. UsageError where the template refuses the messages, with its own
  // words.
  std::vector<int32_t> Encode(std::span<const ChatMessage> messages) const;

 private:
  const text::Tokenizer& tokenizer_;
  const text::ChatTemplate template_;
};

}  // namespace thinwire::infer
