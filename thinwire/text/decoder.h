// Tokens to text, one by one as they are generated.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "thinwire/text/vocabulary.h"

namespace thinwire::text {

struct DecodeOptions {
  bool skip_special = true;  // control and unknown tokens add nothing
  // Drops the space that add_space_prefix put before a text. Off for the continuation of one.
  bool strip_space_prefix = true;
};

// What comes out is well-formed UTF-8 at every step: the bytes of an unfinished character wait for
// the next token, bytes that can be no character become U+FFFD. The pieces together are what
// decoding all tokens at once gives. (Hugging Face's byte fallback replaces every byte of a run of
// "<0xHH>" tokens where one of them is invalid; a stream has shown the valid ones by then and keeps
// them.)
//
// Small and copyable. Allocates nothing.
class Decoder {
 public:
  // `vocabulary` must outlive this.
  explicit Decoder(const Vocabulary& vocabulary, const DecodeOptions& options = {});

  // Room that Append and Finish may need: each byte of a token, and of the 3 at most that waited,
  // can become the 3 of U+FFFD.
  size_t MaxBytes() const { return 3 * (vocabulary_->max_token_bytes() + 3); }

  // Writes what token `id` adds to `out` (of MaxBytes()) and returns its size. An id that is no
  // token adds nothing.
  size_t Append(int32_t id, std::span<char> out);

  // What is left when no token follows.
  size_t Finish(std::span<char> out);

 private:
  class Writer;

  const Vocabulary* vocabulary_;
  bool skip_special_;
  bool strip_space_;
  std::array<char, 4> waiting_{};  // the beginning of a character
  uint8_t waiting_bytes_ = 0;
};

}  // namespace thinwire::text
