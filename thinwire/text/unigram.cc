#include "thinwire/text/unigram.h"

#include <algorithm>

#include "thinwire/text/utf8.h"

namespace thinwire::text {
namespace {

constexpr double kUnknownPenalty = 10;

std::vector<int32_t> PieceIds(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view bytes = vocabulary.Bytes(id);
    if (vocabulary.Type(id) == TokenType::kNormal && vocabulary.Find(bytes) == id) {
      ids.push_back(id);
    }
  }
  return ids;
}

}  // namespace

Unigram::Unigram(const Vocabulary& vocabulary)
    : vocabulary_(vocabulary), index_(vocabulary, PieceIds(vocabulary)) {
  double least = 0;
  for (const int32_t id : index_.ids()) {
    least = std::min(least, static_cast<double>(vocabulary.Score(id)));
  }
  unknown_score_ = least - kUnknownPenalty;
}

void Unigram::Segment(std::string_view word, Memory* memory) const {
  auto& best = memory->best_;
  best.assign(word.size() + 1, {});
  for (size_t begin = 0; begin < word.size();) {
    const uint32_t character = NextUtf8(word.substr(begin)).size;
    const double score = best[begin].score;
    bool covered = false;
    const auto consider = [&](int32_t id, size_t size, double piece_score) {
      covered = covered || size == character;
      auto& end = best[begin + size];
      if (end.last.size != 0 && score + piece_score <= end.score) return;
      end = {score + piece_score, {id, static_cast<uint32_t>(begin), static_cast<uint32_t>(size)}};
    };
    index_.ForEach(word.substr(begin), [&](int32_t id, size_t size) {
      consider(id, size, static_cast<double>(vocabulary_.Score(id)));
    });
    if (!covered) consider(kNoToken, character, unknown_score_);
    begin += character;
  }
  memory->pieces_.clear();
  for (size_t end = word.size(); end > 0; end = best[end].last.begin) {
    memory->pieces_.push_back(best[end].last);
  }
  std::ranges::reverse(memory->pieces_);
}

}  // namespace thinwire::text
