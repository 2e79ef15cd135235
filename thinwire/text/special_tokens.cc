#include "thinwire/text/special_tokens.h"

#include <vector>

namespace thinwire::text {
namespace {

bool IsSpecial(TokenType type) {
  return type == TokenType::kUserDefined || type == TokenType::kControl ||
         type == TokenType::kUnknown;
}

std::vector<int32_t> SpecialIdsOf(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (IsSpecial(vocabulary.Type(id)) && !vocabulary.Bytes(id).empty()) ids.push_back(id);
  }
  return ids;
}

}  // namespace

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary)
    : vocabulary_(vocabulary), index_(vocabulary, SpecialIdsOf(vocabulary)) {
  user_.fill(0);
  any_.fill(0);
  for (const int32_t id : index_.ids()) {
    const auto lead = static_cast<unsigned char>(vocabulary.Bytes(id)[0]);
    any_[lead] = 1;
    if (vocabulary.Type(id) == TokenType::kUserDefined) user_[lead] = 1;
  }
}

SpecialMatch SpecialTokens::Find(std::string_view text, size_t from, bool control) const {
  const auto& begins = control ? any_ : user_;
  for (size_t at = from; at < text.size(); ++at) {
    if (begins[static_cast<unsigned char>(text[at])] == 0) continue;
    const SpecialMatch match = LongestAt(text, at, control);
    if (match.id != kNoToken) return match;
  }
  return {};
}

SpecialMatch SpecialTokens::LongestAt(std::string_view text, size_t begin, bool control) const {
  SpecialMatch longest;
  index_.ForEach(text.substr(begin), [&](int32_t id, size_t size) {
    const bool wanted = control || vocabulary_.Type(id) == TokenType::kUserDefined;
    if (wanted && size > longest.size) longest = {begin, size, id};
  });
  return longest;
}

}  // namespace thinwire::text
