#include "thinwire/text/pre_tokenizer.h"

namespace thinwire::text {

PreTokenizer::PreTokenizer(std::span<const std::string_view> expressions) {
  regexes_.reserve(expressions.size());
  for (const std::string_view expression : expressions) regexes_.emplace_back(expression);
}

}  // namespace thinwire::text
