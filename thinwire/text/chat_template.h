// Chat templates: messages to the text that a model was tuned on, in the Jinja that GGUF and
// Hugging Face files carry (tokenizer.chat_template).
//
// An engine of its own: expressions, filters, tests, loops with break and continue, macros, set,
// namespaces, white space as transformers configures Jinja (trim_blocks, lstrip_blocks), its
// raise_exception, strftime_now and tojson. What it does not know is an error with line and column,
// never another template. A template can neither change what it is given nor run without end.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "thinwire/text/template_evaluator.h"
#include "thinwire/text/template_lexer.h"

namespace thinwire::text {

// The template refused the messages, by raise_exception: `message` is its own.
class TemplateRefusal : public TemplateError {
 public:
  TemplateRefusal(const TemplateError& place, std::string message)
      : TemplateError(place), message_(std::move(message)) {}
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

struct RenderOptions {
  TemplateLimits limits = {};
  std::optional<std::time_t> now = {};  // of strftime_now; not given: the clock's
};

class ChatTemplate {
 public:
  // TemplateError.
  explicit ChatTemplate(std::string_view source);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // `variables` is an object; what transformers passes: messages, add_generation_prompt, bos_token,
  // eos_token, tools ... TemplateError, TemplateRefusal.
  std::string Render(const nlohmann::ordered_json& variables,
                     const RenderOptions& options = {}) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace thinwire::text
