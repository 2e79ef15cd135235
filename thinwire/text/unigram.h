// Unigram segmentation: of all ways to write a word with pieces the one of the highest probability.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/text/prefix_index.h"
#include "thinwire/text/vocabulary.h"

namespace thinwire::text {

struct Piece {
  int32_t id = kNoToken;  // kNoToken: a character that no piece covers
  uint32_t begin = 0;
  uint32_t size = 0;
};

class Unigram {
 public:
  // `vocabulary` must outlive this.
  explicit Unigram(const Vocabulary& vocabulary);

  // One per thread; keeps its memory from word to word.
  class Memory {
   public:
    std::span<const Piece> pieces() const { return pieces_; }

   private:
    friend class Unigram;
    struct Best {
      double score = 0;
      Piece last;  // of the best way to here; size 0: no way yet
    };
    std::vector<Best> best_;  // up to each byte
    std::vector<Piece> pieces_;
  };

  // Of equally probable ways the one whose last piece is the longest. A character that no piece
  // covers costs 10 more than the least probable piece, as in SentencePiece.
  void Segment(std::string_view word, Memory* memory) const;

 private:
  const Vocabulary& vocabulary_;
  PrefixIndex index_;
  double unknown_score_;
};

}  // namespace thinwire::text
