#include "thinwire/text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/text/byte_level.h"
#include "thinwire/text/hash.h"
#include "thinwire/text/sentence_piece.h"

namespace thinwire::text {
namespace {

// Ids are 32 bits, offsets into the arena too; the largest vocabularies have 2^18 tokens.
constexpr size_t kMaxTokens = size_t{1} << 24;
constexpr size_t kMaxBytes = size_t{1} << 30;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// The byte of "<0xHH>", or -1.
int ByteOf(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const int high = HexDigit(token[3]);
  const int low = HexDigit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void CheckId(int32_t id, size_t tokens, std::string_view name) {
  if (id == kNoToken || (id >= 0 && static_cast<size_t>(id) < tokens)) return;
  throw UsageError(StrCat("tokenizer: the ", name, " token's id ", id, " is not one of the ",
                          tokens, " tokens"));
}

}  // namespace

Vocabulary::Vocabulary(const VocabularySource& source)
    : kind_(source.kind),
      ids_(source.ids),
      add_bos_(source.add_bos),
      add_eos_(source.add_eos),
      add_space_prefix_(source.add_space_prefix) {
  byte_tokens_.fill(kNoToken);
  CheckSizes(source);
  ReadTypes(source);
  CheckIds();
  ReadTokens(source);
  FillTable(source);
  FindEnds();
}

void Vocabulary::CheckSizes(const VocabularySource& source) const {
  const size_t tokens = source.tokens.size();
  if (tokens == 0) throw UsageError("tokenizer: the vocabulary has no tokens");
  if (tokens > kMaxTokens) {
    throw UsageError(
        StrCat("tokenizer: ", tokens, " tokens; at most ", kMaxTokens, " are allowed"));
  }
  const auto check = [&](size_t found, std::string_view what) {
    if (found == tokens) return;
    throw UsageError(StrCat("tokenizer: ", found, " ", what, " for ", tokens, " tokens"));
  };
  if (!source.types.empty()) check(source.types.size(), "token types");
  if (kind_ != TokenizerKind::kByteLevelBpe) check(source.scores.size(), "scores");
}

void Vocabulary::CheckIds() const {
  const size_t tokens = types_.size();
  CheckId(ids_.bos, tokens, "bos");
  CheckId(ids_.eos, tokens, "eos");
  CheckId(ids_.unknown, tokens, "unknown");
  CheckId(ids_.padding, tokens, "padding");
  CheckId(ids_.eot, tokens, "eot");
  CheckId(ids_.eom, tokens, "eom");
  if (add_bos_ && ids_.bos == kNoToken) {
    throw UsageError("tokenizer: add_bos_token is set, but there is no bos_token_id");
  }
  if (add_eos_ && ids_.eos == kNoToken) {
    throw UsageError("tokenizer: add_eos_token is set, but there is no eos_token_id");
  }
}

void Vocabulary::ReadTypes(const VocabularySource& source) {
  types_.assign(source.tokens.size(), TokenType::kNormal);
  for (size_t i = 0; i < source.types.size(); ++i) {
    if (source.types[i] < 1 || source.types[i] > 6) {
      throw UsageError(
          StrCat("tokenizer: token ", i, " has type ", source.types[i], "; types are 1 to 6"));
    }
    types_[i] = static_cast<TokenType>(source.types[i]);
  }
  if (kind_ == TokenizerKind::kByteLevelBpe) return;
  for (size_t i = 0; i < types_.size() && source.types.empty(); ++i) {
    if (ByteOf(source.tokens[i]) >= 0) types_[i] = TokenType::kByte;
  }
  scores_.assign(source.scores.begin(), source.scores.end());
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (!std::isfinite(scores_[i])) {
      throw UsageError(StrCat("tokenizer: token ", i, " has score ", scores_[i]));
    }
  }
}

void Vocabulary::ReadTokens(const VocabularySource& source) {
  size_t bytes = 0;
  for (const std::string_view token : source.tokens) {
    bytes += token.size();  // cannot wrap: 2^24 views of memory that exists
    if (bytes > kMaxBytes) throw UsageError("tokenizer: the tokens are larger than 1 GiB");
  }
  arena_.reserve(bytes);
  begins_.reserve(source.tokens.size() + 1);
  for (size_t i = 0; i < source.tokens.size(); ++i) {
    const std::string_view token = source.tokens[i];
    const auto begin = static_cast<uint32_t>(arena_.size());
    begins_.push_back(begin);
    if (types_[i] == TokenType::kByte) {
      const int byte = ByteOf(token);
      if (byte < 0) {
        throw UsageError(StrCat("tokenizer: token ", i, " is a byte token but reads '", token,
                                "'; expected <0xHH> with two hexadecimal digits"));
      }
      arena_.push_back(static_cast<char>(byte));
      byte_tokens_[static_cast<size_t>(byte)] = static_cast<int32_t>(i);
    } else if (kind_ != TokenizerKind::kByteLevelBpe) {
      AppendUnescaped(token, &arena_);
    } else if (types_[i] != TokenType::kNormal || !AppendByteLevel(token, &arena_)) {
      arena_.append(token);  // special tokens are written as they read
    }
    max_token_bytes_ = std::max(max_token_bytes_, arena_.size() - begin);
  }
  begins_.push_back(static_cast<uint32_t>(arena_.size()));
}

void Vocabulary::FillTable(const VocabularySource& source) {
  table_.resize(std::bit_ceil(types_.size() * 2));
  const bool byte_level = kind_ == TokenizerKind::kByteLevelBpe;
  for (int32_t id = 0; id < size(); ++id) {
    if (Type(id) != TokenType::kNormal || Bytes(id).empty()) continue;
    // A plain space of a SentencePiece vocabulary is never looked for: spaces of a text are U+2581.
    if (!byte_level && source.tokens[static_cast<size_t>(id)].find(' ') != std::string_view::npos) {
      continue;
    }
    Insert(id, false);
  }
  if (!byte_level) return;
  for (int32_t id = 0; id < size(); ++id) {
    if (Type(id) != TokenType::kNormal && !Bytes(id).empty()) Insert(id, true);
  }
  for (size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    const char c = static_cast<char>(byte);
    const int32_t id = Find(std::string_view(&c, 1));
    if (id != kNoToken && IsPlain(id)) byte_tokens_[byte] = id;
  }
}

void Vocabulary::Insert(int32_t id, bool may_repeat) {
  const size_t mask = table_.size() - 1;
  const uint64_t hash = HashBytes(Bytes(id));
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    Slot& slot = table_[at];
    if (slot.id == kNoToken) {
      slot = {tag, id};
      return;
    }
    if (slot.tag == tag && Bytes(slot.id) == Bytes(id)) {
      if (may_repeat) return;
      throw UsageError(
          StrCat("tokenizer: tokens ", slot.id, " and ", id, " are both '", Bytes(id), "'"));
    }
  }
}

int32_t Vocabulary::Find(std::string_view bytes) const {
  const size_t mask = table_.size() - 1;
  const uint64_t hash = HashBytes(bytes);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = table_[at];
    if (slot.id == kNoToken || (slot.tag == tag && Bytes(slot.id) == bytes)) return slot.id;
  }
}

void Vocabulary::FindEnds() {
  static constexpr std::array<std::string_view, 12> kEnds = {"<|im_end|>",
                                                             "<|eot_id|>",
                                                             "<|eom_id|>",
                                                             "<|end|>",
                                                             "<end_of_turn>",
                                                             "<|endoftext|>",
                                                             "<|end_of_text|>",
                                                             "<|EOT|>",
                                                             "<|eot|>",
                                                             "<｜end▁of▁sentence｜>",
                                                             "<|END_OF_TURN_TOKEN|>",
                                                             "<EOT>"};
  for (const int32_t id : {ids_.eos, ids_.eot, ids_.eom}) {
    if (id != kNoToken && !EndsGeneration(id)) ends_.push_back(id);
  }
  for (int32_t id = 0; id < size(); ++id) {
    if (Type(id) == TokenType::kControl && std::ranges::count(kEnds, Bytes(id)) > 0 &&
        !EndsGeneration(id)) {
      ends_.push_back(id);
    }
  }
}

bool Vocabulary::EndsGeneration(int32_t id) const { return std::ranges::count(ends_, id) > 0; }

}  // namespace thinwire::text
