#include "thinwire/text/tokenizer.h"

#include <bit>

#include "thinwire/base/error.h"
#include "thinwire/text/pre_tokenizer_names.h"
#include "thinwire/text/sentence_piece.h"
#include "thinwire/text/utf8.h"

namespace thinwire::text {
namespace {

std::span<const std::string_view> ExpressionsOf(const VocabularySource& source) {
  if (source.kind != TokenizerKind::kByteLevelBpe) return {};
  return FindPreTokenizer(source.pre_tokenizer).expressions;
}

bool HasSpaceInside(std::string_view token) {
  const size_t other = token.find_first_not_of(' ');
  return other != std::string_view::npos && token.find(' ', other) != std::string_view::npos;
}

bool WordsEndAtSpaces(const Vocabulary& vocabulary) {
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view bytes = vocabulary.Bytes(id);
    if (vocabulary.Type(id) == TokenType::kNormal && HasSpaceInside(bytes)) return false;
  }
  return true;
}

void AppendUnguarded(std::string_view text, std::string* plain) {
  for (size_t at = text.find(kGuard); at != std::string_view::npos; at = text.find(kGuard)) {
    plain->append(text.substr(0, at));
    text.remove_prefix(at + kGuard.size());
  }
  plain->append(text);
}

// Scores as priorities: the highest first. Flipping the bits of negative floats and the sign of the
// others orders them as unsigned integers.
uint32_t PriorityOf(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 is 0
  const uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

// Whether text becomes tokens of several bytes.
bool HasWords(const Vocabulary& vocabulary) {
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.Type(id) == TokenType::kNormal && vocabulary.Bytes(id).size() > 1) return true;
  }
  return false;
}

}  // namespace

Tokenizer::Tokenizer(const VocabularySource& source)
    : vocabulary_(source),
      special_(vocabulary_),
      pre_tokenizer_(ExpressionsOf(source)),
      merges_(vocabulary_, source.kind == TokenizerKind::kByteLevelBpe
                               ? source.merges
                               : std::span<const std::string_view>()) {
  if (source.kind == TokenizerKind::kByteLevelBpe) {
    if (source.merges.empty() && HasWords(vocabulary_)) {
      throw UsageError("tokenizer: a byte-level vocabulary needs merges");
    }
    ignore_merges_ = source.ignore_merges || FindPreTokenizer(source.pre_tokenizer).ignore_merges;
  } else {
    words_end_at_spaces_ = WordsEndAtSpaces(vocabulary_);
  }
  if (source.kind == TokenizerKind::kUnigram) unigram_ = std::make_unique<Unigram>(vocabulary_);
}

std::string Tokenizer::Guard(std::string_view text) const {
  std::string plain;
  AppendUnguarded(text, &plain);
  std::string guarded;
  size_t at = 0;
  for (size_t from = 0;;) {
    const SpecialMatch match = special_.Find(plain, from, true);
    if (match.id == kNoToken) return guarded.append(plain, at);
    const SpecialMatch user = special_.Find(plain, match.begin, false);
    if (user.id != match.id) {  // a control token
      guarded.append(plain, at, match.begin - at).append(kGuard);
      at = match.begin;
    }
    // A user-defined token stays whole; inside of a control token others may begin.
    const bool whole = user.id != kNoToken && user.begin == match.begin;
    from = match.begin + (whole ? user.size : 1);
  }
}

Encoder::Encoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

size_t Encoder::Encode(std::string_view text, const EncodeOptions& options,
                       std::vector<int32_t>* ids) {
  if (text.size() > UINT32_MAX / 2) throw UsageError("tokenizer: a text of more than 2 GiB");
  const Vocabulary& vocabulary = tokenizer_.vocabulary_;
  ids_ = ids;
  lost_ = 0;
  if (options.add_special && vocabulary.add_bos()) ids->push_back(vocabulary.ids().bos);
  for (size_t at = 0; at < text.size();) {
    const SpecialMatch special = FindSpecial(text, at, options);
    const size_t end = special.id == kNoToken ? text.size() : special.begin;
    if (end > at) EncodePlain(text.substr(at, end - at), options.guarded);
    if (special.id != kNoToken) ids->push_back(special.id);
    at = end + special.size;
  }
  if (options.add_special && vocabulary.add_eos()) ids->push_back(vocabulary.ids().eos);
  return lost_;
}

SpecialMatch Encoder::FindSpecial(std::string_view text, size_t from,
                                  const EncodeOptions& options) const {
  const Vocabulary& vocabulary = tokenizer_.vocabulary_;
  while (true) {
    SpecialMatch match = tokenizer_.special_.Find(text, from, options.parse_special);
    const bool guarded =
        options.guarded && match.id != kNoToken && text.substr(0, match.begin).ends_with(kGuard);
    if (!guarded || vocabulary.Type(match.id) == TokenType::kUserDefined) return match;
    const SpecialMatch plain = tokenizer_.special_.Find(text, match.begin, false);
    if (plain.id != kNoToken && plain.begin == match.begin) return plain;
    from = match.begin + 1;
  }
}

// A stretch between special tokens.
void Encoder::EncodePlain(std::string_view text, bool guarded) {
  after_unknown_ = false;
  if (guarded) {
    unguarded_.clear();
    AppendUnguarded(text, &unguarded_);
    text = unguarded_;
  }
  if (tokenizer_.vocabulary_.kind() != TokenizerKind::kByteLevelBpe) {
    spaced_.clear();
    if (tokenizer_.vocabulary_.add_space_prefix()) spaced_.push_back(' ');
    AppendUnescaped(text, &spaced_);
    EncodeSpaced(spaced_);
    return;
  }
  while (!text.empty()) {
    const size_t valid = ValidUtf8Prefix(text);
    tokenizer_.pre_tokenizer_.Split(text.substr(0, valid), &regex_memory_,
                                    [this](std::string_view word) { EncodeWord(word); });
    text.remove_prefix(valid);
    if (text.empty()) return;
    const uint32_t bad = NextUtf8(text).size;
    EncodeWord(text.substr(0, bad));
    text.remove_prefix(bad);
  }
}

void Encoder::EncodeSpaced(std::string_view text) {
  if (!tokenizer_.words_end_at_spaces_) {
    EncodeWord(text);
    return;
  }
  while (!text.empty()) {
    const size_t letters = std::min(text.find_first_not_of(' '), text.size());
    const size_t end = std::min(text.find(' ', letters), text.size());
    EncodeWord(text.substr(0, end));
    text.remove_prefix(end);
  }
}

void Encoder::EncodeWord(std::string_view word) {
  const bool may_hold = WordCache::MayHold(word);
  if (may_hold) {
    const std::span<const int32_t> known = cache_.Find(word);
    if (!known.empty()) {
      ids_->insert(ids_->end(), known.begin(), known.end());
      after_unknown_ = false;
      return;
    }
  }
  const size_t begin = ids_->size();
  const size_t lost = lost_;
  const bool after_unknown = after_unknown_;
  switch (tokenizer_.vocabulary_.kind()) {
    case TokenizerKind::kByteLevelBpe:
      MergeBytes(word);
      break;
    case TokenizerKind::kSentencePieceBpe:
      MergeCharacters(word);
      break;
    case TokenizerKind::kUnigram:
      tokenizer_.unigram_->Segment(word, &unigram_memory_);
      for (const Piece& piece : unigram_memory_.pieces()) {
        if (piece.id != kNoToken) {
          Emit(piece.id);
        } else {
          EmitUnknown(word.substr(piece.begin, piece.size));
        }
      }
  }
  // What depends on the words around it is not kept.
  if (may_hold && lost_ == lost && !after_unknown && !after_unknown_) {
    cache_.Keep(word, std::span<const int32_t>(*ids_).subspan(begin));
  }
}

void Encoder::MergeBytes(std::string_view word) {
  const Vocabulary& vocabulary = tokenizer_.vocabulary_;
  if (tokenizer_.ignore_merges_) {
    const int32_t id = vocabulary.Find(word);
    if (id != kNoToken && vocabulary.IsPlain(id)) {
      Emit(id);
      return;
    }
  }
  merger_.Clear();
  for (uint32_t i = 0; i < word.size(); ++i) {
    const int32_t id = vocabulary.ByteToken(static_cast<unsigned char>(word[i]));
    if (id == kNoToken) {
      ++lost_;
    } else {
      merger_.Add({id, i, 1});
    }
  }
  merger_.Run([&](const Symbol& left, const Symbol& right) {
    return tokenizer_.merges_.Find(left.id, right.id);
  });
  for (const Symbol& symbol : merger_.symbols()) Emit(symbol.id);
}

void Encoder::MergeCharacters(std::string_view word) {
  const Vocabulary& vocabulary = tokenizer_.vocabulary_;
  merger_.Clear();
  for (uint32_t at = 0; at < word.size();) {
    const uint32_t size = NextUtf8(word.substr(at)).size;
    merger_.Add({vocabulary.Find(word.substr(at, size)), at, size});
    at += size;
  }
  merger_.Run([&](const Symbol& left, const Symbol& right) -> PairMerge {
    const int32_t id = vocabulary.Find(word.substr(left.begin, left.size + right.size));
    if (id == kNoToken) return {};
    return {PriorityOf(vocabulary.Score(id)), id};
  });
  for (const Symbol& symbol : merger_.symbols()) {
    if (symbol.id != kNoToken) {
      Emit(symbol.id);
    } else {
      EmitUnknown(word.substr(symbol.begin, symbol.size));
    }
  }
}

void Encoder::Emit(int32_t id) {
  ids_->push_back(id);
  after_unknown_ = false;
}

// A character without a token: its bytes, if all of them have tokens, or the unknown token.
void Encoder::EmitUnknown(std::string_view bytes) {
  const Vocabulary& vocabulary = tokenizer_.vocabulary_;
  bool all = true;
  for (const char c : bytes) {
    all = all && vocabulary.ByteToken(static_cast<unsigned char>(c)) != kNoToken;
  }
  if (all) {
    for (const char c : bytes) Emit(vocabulary.ByteToken(static_cast<unsigned char>(c)));
  } else if (vocabulary.ids().unknown == kNoToken) {
    lost_ += bytes.size();
  } else {
    if (!after_unknown_) ids_->push_back(vocabulary.ids().unknown);
    after_unknown_ = true;
  }
}

}  // namespace thinwire::text
