// Text to tokens, for byte-level BPE, SentencePiece BPE and unigram vocabularies.
//
// The ids are those of Hugging Face's `tokenizers` (byte-level BPE, unigram) and of SentencePiece.
// Known differences: bytes that are no UTF-8, which those cannot be given, become byte tokens; text
// never becomes a control token unless told to look for them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/text/byte_pair.h"
#include "thinwire/text/merge_table.h"
#include "thinwire/text/pre_tokenizer.h"
#include "thinwire/text/special_tokens.h"
#include "thinwire/text/unigram.h"
#include "thinwire/text/vocabulary.h"
#include "thinwire/text/word_cache.h"

namespace thinwire::text {

// Immutable: threads share it, each with an Encoder of its own.
class Tokenizer {
 public:
  // UsageError for what is wrong with `source`; see Vocabulary, FindPreTokenizer, MergeTable.
  explicit Tokenizer(const VocabularySource& source);
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  const Vocabulary& vocabulary() const { return vocabulary_; }

  // `text` with a kGuard before each control token that it spells out, and without guards of its
  // own: for what users wrote, before a chat template puts it between control tokens.
  std::string Guard(std::string_view text) const;

 private:
  friend class Encoder;

  Vocabulary vocabulary_;
  SpecialTokens special_;
  PreTokenizer pre_tokenizer_;
  MergeTable merges_;
  std::unique_ptr<Unigram> unigram_;
  bool ignore_merges_ = false;
  // No token goes on after a space that follows something else, so a text may be cut before such
  // spaces without changing its tokens.
  bool words_end_at_spaces_ = false;
};

// Marks what follows it as the beginning of no control token. A noncharacter: no text has it.
constexpr std::string_view kGuard = "\xF4\x8F\xBF\xBF";  // U+10FFFF

struct EncodeOptions {
  bool add_special = true;  // bos before and eos after, where the vocabulary wants them
  // Looks for control tokens written out, "<|im_end|>". Off for text of users: then it is text.
  // User-defined tokens are found either way.
  bool parse_special = false;
  // With parse_special: control tokens behind a kGuard are text, and guards are no part of it. For
  // a prompt of which some pieces are not to be trusted, see Tokenizer::Guard.
  bool guarded = false;
};

// One per thread. Keeps its memory: after a text as large as any that follows, and with room in
// `ids` (MaxIds), Encode allocates nothing.
class Encoder {
 public:
  // `tokenizer` must outlive this.
  explicit Encoder(const Tokenizer& tokenizer);

  // Appends the tokens of `text` to `ids`. Returns the number of bytes that no token stands for,
  // which are lost, as they are in Hugging Face's tokenizers: 0 but for vocabularies without an
  // unknown token that lack some byte or character.
  size_t Encode(std::string_view text, const EncodeOptions& options, std::vector<int32_t>* ids);

  // No text of so many bytes has more tokens.
  static size_t MaxIds(size_t bytes) { return 2 * bytes + 2; }

 private:
  SpecialMatch FindSpecial(std::string_view text, size_t from, const EncodeOptions& options) const;
  void EncodePlain(std::string_view text, bool guarded);
  void EncodeSpaced(std::string_view text);
  void EncodeWord(std::string_view word);
  void MergeBytes(std::string_view word);
  void MergeCharacters(std::string_view word);
  void Emit(int32_t id);
  void EmitUnknown(std::string_view bytes);

  const Tokenizer& tokenizer_;
  std::vector<int32_t>* ids_ = nullptr;
  size_t lost_ = 0;
  bool after_unknown_ = false;  // a run of unknown characters is one unknown token
  RegexMemory regex_memory_;
  BytePairMerger merger_;
  Unigram::Memory unigram_memory_;
  WordCache cache_;
  std::string unguarded_;
  std::string spaced_;  // a text with its space prefix and without U+2581
};

}  // namespace thinwire::text
