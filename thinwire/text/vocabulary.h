// The tokens of a model: their bytes, kinds and special ids. Knows no file format.
//
// Every check of what a file says about tokens is here; an error names the token by its id. After
// construction nothing changes, so threads may share a vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::text {

constexpr int32_t kNoToken = -1;

enum class TokenizerKind : uint8_t {
  kByteLevelBpe,      // GPT-2: words of an expression, bytes merged by rank
  kSentencePieceBpe,  // LLaMA 1 and 2, Gemma: characters merged by score
  kUnigram,           // T5: the most probable pieces
};

// Numbered as in GGUF's tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // never comes out of plain text
  kUserDefined = 4,  // found in text before it is split
  kUnused = 5,
  kByte = 6,  // "<0xHH>" stands for one byte
};

struct SpecialIds {
  int32_t bos = kNoToken;
  int32_t eos = kNoToken;
  int32_t unknown = kNoToken;
  int32_t padding = kNoToken;
  int32_t eot = kNoToken;  // of a turn of a chat
  int32_t eom = kNoToken;  // of a message that expects a tool's answer
};

// What a tokenizer is made from. The views need to live during construction only.
struct VocabularySource {
  TokenizerKind kind = TokenizerKind::kByteLevelBpe;
  std::span<const std::string_view> tokens;  // as written in the file, by id
  std::span<const int32_t> types;            // TokenType of each; empty: all normal
  std::span<const float> scores;  // log probabilities: SentencePiece BPE and unigram only
  std::span<const std::string_view> merges;  // "left right", best first: byte-level BPE only
  std::string_view pre_tokenizer;            // a name of pre_tokenizer_names.h: byte-level BPE only
  SpecialIds ids;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;
  // A word that is a token is not merged from its bytes. Expressions that ask for it
  // (pre_tokenizer_names.h) need not be told.
  bool ignore_merges = false;
};

class Vocabulary {
 public:
  // UsageError: sizes that disagree, ids out of range, types or scores that are none, two tokens of
  // the same bytes, a byte token that is not exactly "<0xHH>".
  explicit Vocabulary(const VocabularySource& source);

  TokenizerKind kind() const { return kind_; }
  const SpecialIds& ids() const { return ids_; }
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  bool add_space_prefix() const { return add_space_prefix_; }

  int32_t size() const { return static_cast<int32_t>(types_.size()); }
  size_t max_token_bytes() const { return max_token_bytes_; }

  // The bytes that a token adds to a text (of SentencePiece's U+2581: a space). `id` in range.
  std::string_view Bytes(int32_t id) const {
    const auto i = static_cast<size_t>(id);
    return std::string_view(arena_).substr(begins_[i], begins_[i + 1] - begins_[i]);
  }
  TokenType Type(int32_t id) const { return types_[static_cast<size_t>(id)]; }
  float Score(int32_t id) const { return scores_[static_cast<size_t>(id)]; }

  // The token of these bytes that splitting a text may use, or kNoToken. In a byte-level vocabulary
  // this finds special tokens, too.
  int32_t Find(std::string_view bytes) const;

  // "<0xHH>", or in a byte-level vocabulary the token of that one byte; kNoToken where it has none.
  int32_t ByteToken(unsigned char byte) const { return byte_tokens_[byte]; }

  // Whether text may become this token without being told to look for special ones.
  bool IsPlain(int32_t id) const {
    return Type(id) == TokenType::kNormal || Type(id) == TokenType::kUserDefined ||
           Type(id) == TokenType::kByte;
  }

  // Whether generation ends with this token: eos, eot, eom, and control tokens that are known to
  // end a turn ("<|im_end|>", "<|eot_id|>", "<end_of_turn>" ...), which many files do not declare.
  bool EndsGeneration(int32_t id) const;

 private:
  struct Slot {
    uint32_t tag = 0;
    int32_t id = kNoToken;
  };

  void CheckSizes(const VocabularySource& source) const;
  void CheckIds() const;
  void ReadTypes(const VocabularySource& source);
  void ReadTokens(const VocabularySource& source);
  void FillTable(const VocabularySource& source);
  void Insert(int32_t id, bool may_repeat);
  void FindEnds();

  TokenizerKind kind_;
  SpecialIds ids_;
  bool add_bos_, add_eos_, add_space_prefix_;
  std::string arena_;             // bytes of all tokens
  std::vector<uint32_t> begins_;  // of each token in the arena, and the end
  std::vector<TokenType> types_;
  std::vector<float> scores_;
  std::vector<Slot> table_;  // open addressing, a power of two of slots, at most half of them used
  std::vector<int32_t> ends_;
  std::array<int32_t, 256> byte_tokens_;
  size_t max_token_bytes_ = 0;
};

}  // namespace thinwire::text
