#include "thinwire/infer/guesser.h"

#include <algorithm>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/kernels/decoder_rows.h"

namespace thinwire::infer {

void RepeatGuesser::Guess(std::span<const GuessWanted> wanted) {
  for (const GuessWanted& each : wanted) {
    std::vector<int32_t>& tokens = *each.tokens;
    if (std::ssize(tokens) <= kGuessedBy) continue;
    const auto latest = tokens.end() - kGuessedBy;
    for (auto at = latest; at != tokens.begin();) {
      if (!std::equal(latest, tokens.end(), --at)) continue;
      const auto begin = static_cast<size_t>(at - tokens.begin() + kGuessedBy);
      // A guess may go on from its own beginning: what repeats itself is guessed to go on.
      for (size_t i = 0; i < static_cast<size_t>(each.most); ++i) {
        tokens.push_back(tokens[begin + i]);
      }
      break;
    }
  }
}

DraftGuesser::DraftGuesser(Decoder& draft, int64_t vocabulary)
    : draft_(draft), vocabulary_(vocabulary) {
  const DecoderLimits& limits = draft.limits();
  const int64_t sequences = limits.cache.sequences;
  THINWIRE_CHECK(limits.outputs >= sequences && limits.batch >= sequences, limits.outputs);
  THINWIRE_CHECK(vocabulary <= draft.spec().vocabulary, vocabulary);
  seen_.resize(static_cast<size_t>(sequences));
  for (auto& tokens : seen_) tokens.reserve(static_cast<size_t>(limits.cache.positions + 1));
  open_.reserve(seen_.size());
  segments_.reserve(seen_.size());
  rows_.reserve(seen_.size());
  tokens_.reserve(static_cast<size_t>(limits.batch));
}

void DraftGuesser::Begin(std::span<const GuessWanted> wanted) {
  open_.clear();
  for (const GuessWanted& each : wanted) {
    std::vector<int32_t>& seen = seen_[static_cast<size_t>(each.sequence)];
    const auto same = std::ranges::mismatch(seen, *each.tokens).in1 - seen.begin();
    // The last one is computed in any case, for what follows it.
    const int64_t kept = std::min(same, std::ssize(*each.tokens) - 1);
    seen.resize(static_cast<size_t>(kept));
    draft_.cache().Truncate(each.sequence, kept);
    open_.push_back({.wanted = each, .certain = each.tokens->size()});
  }
}

bool DraftGuesser::Collect() {
  tokens_.clear();
  segments_.clear();
  rows_.clear();
  int64_t room = draft_.limits().batch;
  for (Open& open : open_) {
    open.ready = false;
    if (open.done || room == 0) continue;
    const std::vector<int32_t>& tokens = *open.wanted.tokens;
    std::vector<int32_t>& seen = seen_[static_cast<size_t>(open.wanted.sequence)];
    const int64_t count = std::min(room, std::ssize(tokens) - std::ssize(seen));
    const auto begin = tokens.begin() + std::ssize(seen);
    tokens_.insert(tokens_.end(), begin, begin + count);
    seen.insert(seen.end(), begin, begin + count);
    segments_.push_back({.sequence = open.wanted.sequence, .tokens = count});
    room -= count;
    open.ready = seen.size() == tokens.size();
    if (open.ready) rows_.push_back(std::ssize(tokens_) - 1);
  }
  return !segments_.empty();
}

// Sequences that nothing is guessed of give up their pages. The others fit, as they do in the cache
// of the model that checks.
bool DraftGuesser::MakeRoom() {
  KvCache& cache = draft_.cache();
  int64_t needed = 0;
  for (const Segment& segment : segments_) {
    const int64_t length = cache.Length(segment.sequence);
    needed += KvCache::PagesFor(length + segment.tokens) - KvCache::PagesFor(length);
  }
  for (int64_t i = 0; i < cache.sequences() && cache.free_pages() < needed; ++i) {
    const auto is_this = [i](const Open& open) { return open.wanted.sequence == i; };
    if (std::ranges::any_of(open_, is_this)) continue;
    cache.Truncate(i, 0);
    seen_[static_cast<size_t>(i)].clear();
  }
  return cache.free_pages() >= needed;
}

void DraftGuesser::Take() {
  std::span<const float> logits = draft_.Logits(rows_);
  for (Open& open : open_) {
    if (!open.ready) continue;
    const auto row = logits.first(static_cast<size_t>(vocabulary_));
    logits = logits.subspan(static_cast<size_t>(draft_.spec().vocabulary));
    const int64_t token = kernels::IndexOfLargest(draft_.context(), row);
    const float log_probability =
        row[static_cast<size_t>(token)] - kernels::LogSumExp(draft_.context(), row);
    open.done = !(log_probability >= std::log(kLeastProbability));
    if (open.done) continue;
    std::vector<int32_t>& tokens = *open.wanted.tokens;
    tokens.push_back(static_cast<int32_t>(token));
    open.done = std::ssize(tokens) - static_cast<int64_t>(open.certain) == open.wanted.most;
  }
}

void DraftGuesser::Guess(std::span<const GuessWanted> wanted) {
  Begin(wanted);
  while (Collect()) {
    if (!MakeRoom()) {
      for (const Segment& segment : segments_) {
        seen_[static_cast<size_t>(segment.sequence)].resize(
            static_cast<size_t>(draft_.cache().Length(segment.sequence)));
      }
      return;
    }
    draft_.Forward(tokens_, segments_);
    if (!rows_.empty()) Take();
  }
}

}  // namespace thinwire::infer
