// A Jinja template as tokens, with the settings that chat templates are written for: trim_blocks
// and lstrip_blocks on, one newline at the end dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/error.h"

namespace thinwire::text {

// A template that is none, or that fails; the message names line and column.
class TemplateError : public UsageError {
 public:
  // `offset`: the byte of `source` where it happened.
  TemplateError(std::string_view source, size_t offset, std::string_view problem);
  using UsageError::UsageError;
};

struct TemplateToken {
  enum class Kind : uint8_t {
    kText,
    kPrintBegin,  // {{
    kPrintEnd,
    kBlockBegin,  // {%
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;  // strings without quotes and escapes, numbers without "_"
  uint32_t offset = 0;
};

// "\n" for every line break, without one at the end: what offsets refer to.
std::string NormalizeTemplate(std::string_view source);

// `source` as NormalizeTemplate makes it. Ends with kEnd. TemplateError.
std::vector<TemplateToken> LexTemplate(const std::string& source);

// Python's str.isspace of one code point.
bool IsPythonSpace(uint32_t code_point);
// Bytes of white space at the beginning and at the end of `text`.
size_t LeadingSpace(std::string_view text);
size_t TrailingSpace(std::string_view text);

}  // namespace thinwire::text
