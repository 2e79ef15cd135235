#include "thinwire/infer/scheduler.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/kernels/decoder_rows.h"

namespace thinwire::infer {
namespace {

int64_t CommonPrefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

Scheduler::Scheduler(Decoder& decoder, std::vector<bool> ends, std::unique_ptr<Guesser> guesser)
    : decoder_(decoder), ends_(std::move(ends)), guesser_(std::move(guesser)) {
  if (guesser_ == nullptr) guesser_ = std::make_unique<RepeatGuesser>();
  const DecoderLimits& limits = decoder.limits();
  THINWIRE_CHECK(static_cast<int64_t>(ends_.size()) == decoder.spec().vocabulary, ends_.size());
  THINWIRE_CHECK(limits.batch >= limits.cache.sequences, "batch ", limits.batch, " for ",
                 limits.cache.sequences, " sequences");
  slots_.resize(static_cast<size_t>(limits.cache.sequences));
  for (Slot& slot : slots_) slot.tokens.reserve(static_cast<size_t>(limits.cache.positions + 1));
  tokens_.reserve(static_cast<size_t>(limits.batch));
  segments_.reserve(slots_.size());
  wanted_.reserve(slots_.size());
  sampled_slots_.reserve(slots_.size());
  rows_.reserve(static_cast<size_t>(limits.outputs));
}

// With one for a page that is shared and has to be copied.
int64_t Scheduler::PagesFor(const Request& request) const {
  return KvCache::PagesFor(static_cast<int64_t>(request.prompt.size()) + request.most_tokens) + 1;
}

int64_t Scheduler::Submit(Request request) {
  const DecoderLimits& limits = decoder_.limits();
  const int64_t vocabulary = decoder_.spec().vocabulary;
  if (request.prompt.empty()) throw UsageError("prompt: is empty; one token at least is needed");
  for (const int32_t token : request.prompt) {
    if (token < 0 || token >= vocabulary) {
      throw UsageError(
          StrCat("prompt: token ", token, " is not in the vocabulary of ", vocabulary));
    }
  }
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt >= limits.cache.positions) {
    throw UsageError(StrCat("prompt: ", prompt, " tokens and an answer do not fit the context of ",
                            limits.cache.positions));
  }
  if (request.most_tokens < 1 || request.guesses < 0) {
    throw UsageError(StrCat("most_tokens: ", request.most_tokens, ", guesses: ", request.guesses,
                            "; at least 1 and 0 are needed"));
  }
  THINWIRE_CHECK(request.sink != nullptr);
  CheckSampling(request.sampling, vocabulary);
  request.most_tokens = std::min(request.most_tokens, limits.cache.positions - prompt);
  // One less than batch and rows of logits have room for: the last token that is certain.
  const int64_t most = std::min(limits.batch / limits.cache.sequences, limits.outputs);
  request.guesses = std::min(request.guesses, most - 1);
  queue_.push_back({next_number_, std::move(request)});
  return next_number_++;
}

bool Scheduler::Cancel(int64_t number) {
  if (std::erase_if(queue_, [&](const Waiting& w) { return w.number == number; }) > 0) return true;
  for (Slot& slot : slots_) {
    if (!slot.active() || slot.number != number) continue;
    slot.number = -1;
    slot.sampler.reset();
    return true;
  }
  return false;
}

void Scheduler::Forget() {
  THINWIRE_CHECK(running() == 0 && queue_.empty(), running(), " requests run");
  for (size_t i = 0; i < slots_.size(); ++i) {
    decoder_.cache().Truncate(static_cast<int64_t>(i), 0);
    slots_[i].tokens.clear();
  }
}

int64_t Scheduler::running() const {
  return std::ranges::count_if(slots_, [](const Slot& slot) { return slot.active(); });
}

// Frees what idle slots keep, the longest unused first, until all that runs has the room that was
// promised to it.
void Scheduler::MakeRoom() {
  KvCache& cache = decoder_.cache();
  for (;;) {
    int64_t promised = 0;
    Slot* oldest = nullptr;
    for (size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      const int64_t length = cache.Length(static_cast<int64_t>(i));
      if (slot.active()) {
        promised += slot.reserved - KvCache::PagesFor(length);
      } else if (length > 0 && (oldest == nullptr || slot.last_used < oldest->last_used)) {
        oldest = &slot;
      }
    }
    if (promised <= cache.free_pages() || oldest == nullptr) return;
    cache.Truncate(oldest - slots_.data(), 0);
    oldest->tokens.clear();
  }
}

bool Scheduler::TryAdmit(Waiting& waiting) {
  KvCache& cache = decoder_.cache();
  const std::vector<int32_t>& prompt = waiting.request.prompt;
  const int64_t total = KvCache::PagesFor(decoder_.limits().cache.positions);
  const int64_t reserved = std::min(PagesFor(waiting.request), total);
  Slot* free = nullptr;
  const Slot* source = nullptr;
  int64_t most = 0;
  int64_t sum = reserved;
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.active()) sum += slot.reserved;
    const auto known =
        std::span(slot.tokens).first(static_cast<size_t>(cache.Length(static_cast<int64_t>(i))));
    // One token must be computed, for its logits.
    const int64_t common = waiting.request.all_is_computed()
                               ? 0
                               : std::min(CommonPrefix(known, prompt), std::ssize(prompt) - 1);
    if (common > most) {
      most = common;
      source = &slot;
    }
    const bool older = free == nullptr || slot.last_used < free->last_used;
    if (!slot.active() && older) free = &slot;
  }
  if (free == nullptr || sum > total) return false;
  // Goes on in the slot itself where that keeps most of what is there.
  const auto index_of = [&](const Slot* slot) { return slot - slots_.data(); };
  if (source != nullptr && !source->active() && 2 * most >= cache.Length(index_of(source))) {
    free = &slots_[static_cast<size_t>(index_of(source))];
  }
  const int64_t to = index_of(free);
  cache.Truncate(to, source == free ? most : 0);
  if (source != nullptr && source != free) cache.Share(index_of(source), to, most);
  reused_tokens_ += most;
  Slot& slot = *free;
  slot.tokens.assign(prompt.begin(), prompt.end());
  slot.number = waiting.number;
  slot.request = std::move(waiting.request);
  slot.sampler = std::make_unique<Sampler>(decoder_.context(), decoder_.spec().vocabulary,
                                           slot.request.sampling);
  slot.drawn = 0;
  slot.guessed = 0;
  slot.reserved = reserved;
  MakeRoom();
  return true;
}

void Scheduler::Admit() {
  while (!queue_.empty() && TryAdmit(queue_.front())) queue_.pop_front();
}

// Drops guesses from the first on that the constraint does not allow.
void Scheduler::KeepPossible(Slot& slot) {
  if (slot.request.constraint == nullptr) return;
  const auto guesses = std::span(slot.tokens).last(static_cast<size_t>(slot.guessed));
  const int64_t possible = slot.request.constraint->Possible(guesses);
  slot.tokens.resize(slot.tokens.size() - static_cast<size_t>(slot.guessed - possible));
  slot.guessed = possible;
}

void Scheduler::Guess() {
  wanted_.clear();
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.active() || slot.drawn == 0) continue;
    const int64_t room = slot.request.most_tokens - slot.drawn - 1;
    const int64_t most = std::min(slot.request.guesses, room);
    if (most <= 0) continue;
    wanted_.push_back({static_cast<int64_t>(i), &slot.tokens, most});
    slot.guessed = -std::ssize(slot.tokens);
  }
  if (wanted_.empty()) return;
  guesser_->Guess(wanted_);
  for (const GuessWanted& each : wanted_) {
    Slot& slot = slots_[static_cast<size_t>(each.sequence)];
    slot.guessed += std::ssize(slot.tokens);
    KeepPossible(slot);
    guessed_tokens_ += slot.guessed;
  }
}

// The pass: of each answer its new token and guesses, then prompts as far as the batch goes.
// Returns how many tokens.
int64_t Scheduler::Collect() {
  tokens_.clear();
  segments_.clear();
  const auto count = std::ssize(slots_);
  int64_t room = decoder_.limits().batch;
  const auto add = [&](int64_t index, int64_t most) {
    const Slot& slot = slots_[static_cast<size_t>(index)];
    const int64_t begin = decoder_.cache().Length(index);
    const int64_t tokens = std::min(most, std::ssize(slot.tokens) - begin);
    segments_.push_back({.sequence = index, .tokens = tokens});
    tokens_.insert(tokens_.end(), slot.tokens.begin() + begin,
                   slot.tokens.begin() + begin + tokens);
    room -= tokens;
  };
  Guess();
  for (int64_t i = 0; i < count; ++i) {
    const Slot& slot = slots_[static_cast<size_t>(i)];
    if (slot.active() && slot.drawn > 0) add(i, room);
  }
  for (int64_t k = 0; k < count && room > 0; ++k) {
    const int64_t i = (first_ + k) % count;
    const Slot& slot = slots_[static_cast<size_t>(i)];
    if (slot.active() && slot.drawn == 0) add(i, room);
  }
  first_ = (first_ + 1) % count;
  return std::ssize(tokens_);
}

void Scheduler::End(Slot& slot, Finish finish) {
  TokenSink* const sink = slot.request.sink;
  slot.number = -1;
  slot.sampler.reset();
  slot.last_used = ++clock_;
  sink->OnEnd(finish);
}

// Whether the request goes on.
bool Scheduler::Take(Slot& slot, const Sampled& sampled) {
  ++slot.drawn;
  if (ends_[static_cast<size_t>(sampled.token)]) {
    End(slot, Finish::kEnd);
    return false;
  }
  if (slot.request.constraint != nullptr) slot.request.constraint->Accept(sampled.token);
  if (!slot.request.sink->OnToken(sampled)) {
    End(slot, Finish::kStopped);
    return false;
  }
  if (slot.request.constraint != nullptr && slot.request.constraint->Ended()) {
    End(slot, Finish::kEnd);
    return false;
  }
  if (slot.drawn == slot.request.most_tokens) {
    End(slot, Finish::kLength);
    return false;
  }
  return true;
}

// The token behind the first `known`; none where the constraint allows none.
std::optional<Sampled> Scheduler::SampleNext(Slot& slot, std::span<float> logits, size_t known) {
  TokenConstraint* const constraint = slot.request.constraint;
  std::span<const uint64_t> allowed;
  if (constraint != nullptr) {
    allowed = constraint->Allowed();
    if (allowed.empty()) return std::nullopt;
  }
  const Sampled sampled = slot.sampler->Sample(logits, std::span(slot.tokens).first(known),
                                               static_cast<uint64_t>(slot.drawn), allowed);
  const auto token = static_cast<size_t>(sampled.token);
  // A bias of minus infinity may leave none of them.
  if (!allowed.empty() && (allowed[token / 64] >> (token % 64) & 1) == 0) return std::nullopt;
  return sampled;
}

// `logits` are of the last certain token and the guesses after it. A guess was right when it is
// what is sampled after the token before it.
void Scheduler::SampleSlot(int64_t index, std::span<float> logits) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  const auto vocabulary = static_cast<size_t>(decoder_.spec().vocabulary);
  const int64_t certain = std::ssize(slot.tokens) - slot.guessed;
  int64_t right = 0;
  for (bool guessed = true; guessed;) {
    const auto known = static_cast<size_t>(certain + right);
    const std::optional<Sampled> sampled = SampleNext(
        slot, logits.subspan(static_cast<size_t>(right) * vocabulary, vocabulary), known);
    if (!sampled) {
      slot.tokens.resize(known);
      const TokenConstraint* const constraint = slot.request.constraint;
      End(slot, constraint->Ended() ? Finish::kEnd : Finish::kStuck);
      break;
    }
    guessed = right < slot.guessed && slot.tokens[known] == sampled->token;
    if (guessed) {
      ++right;
      ++right_guesses_;
    } else {
      slot.tokens.resize(known);
      slot.tokens.push_back(sampled->token);
    }
    if (!Take(slot, *sampled)) break;
  }
  slot.guessed = 0;
  // What was computed of guesses that were wrong.
  KvCache& cache = decoder_.cache();
  cache.Truncate(index, std::min(cache.Length(index), certain + right));
}

void Scheduler::SampleRows() {
  std::span<float> logits = decoder_.Logits(rows_);
  for (const int64_t index : sampled_slots_) {
    const Slot& slot = slots_[static_cast<size_t>(index)];
    const auto size = static_cast<size_t>((slot.guessed + 1) * decoder_.spec().vocabulary);
    // The sink of one before it may have cancelled it.
    if (slot.active()) SampleSlot(index, logits.first(size));
    logits = logits.subspan(size);
  }
  rows_.clear();
  sampled_slots_.clear();
}

// The rows of `segment` end at `end`.
void Scheduler::ShowComputed(const Segment& segment, int64_t end) {
  Slot& slot = slots_[static_cast<size_t>(segment.sequence)];
  if (slot.request.hidden != nullptr) {
    for (int64_t row = end - segment.tokens; row < end; ++row) {
      slot.request.hidden->OnHidden(decoder_.Hidden(row));
    }
  }
  if (slot.request.scores != nullptr) ShowScores(segment, end);
  if (decoder_.cache().Length(segment.sequence) == std::ssize(slot.tokens)) {
    End(slot, Finish::kLength);
  }
}

void Scheduler::ShowScores(const Segment& segment, int64_t end) {
  if (!rows_.empty()) SampleRows();
  const Slot& slot = slots_[static_cast<size_t>(segment.sequence)];
  const auto vocabulary = static_cast<size_t>(decoder_.spec().vocabulary);
  // Row r foretells token r + shift; nothing follows the last one.
  const int64_t shift = decoder_.cache().Length(segment.sequence) - end + 1;
  const int64_t last = std::min(end, std::ssize(slot.tokens) - shift);
  for (int64_t row = end - segment.tokens; row < last; row += std::ssize(rows_)) {
    rows_.resize(static_cast<size_t>(std::min(last - row, decoder_.limits().outputs)));
    std::iota(rows_.begin(), rows_.end(), row);
    const std::span<const float> logits = decoder_.Logits(rows_);
    for (size_t i = 0; i < rows_.size(); ++i) {
      const auto of_row = logits.subspan(i * vocabulary, vocabulary);
      const int32_t token = slot.tokens[static_cast<size_t>(rows_[i] + shift)];
      slot.request.scores->OnScore(of_row[static_cast<size_t>(token)] -
                                   kernels::LogSumExp(decoder_.context(), of_row));
    }
  }
  rows_.clear();
}

void Scheduler::SampleAll() {
  int64_t end = 0;
  for (const Segment& segment : segments_) {
    const Slot& slot = slots_[static_cast<size_t>(segment.sequence)];
    end += segment.tokens;
    if (slot.active() && slot.request.all_is_computed()) {
      ShowComputed(segment, end);
      continue;
    }
    // A prompt that is not through yet has nothing to sample.
    if (decoder_.cache().Length(segment.sequence) < std::ssize(slot.tokens)) continue;
    const int64_t count = slot.guessed + 1;
    if (std::ssize(rows_) + count > decoder_.limits().outputs) SampleRows();
    for (int64_t i = 0; i < count; ++i) rows_.push_back(end - count + i);
    sampled_slots_.push_back(segment.sequence);
  }
  if (!rows_.empty()) SampleRows();
}

bool Scheduler::Step() {
  Admit();
  if (Collect() == 0) return false;
  decoder_.Forward(tokens_, segments_);
  SampleAll();
  return true;
}

}  // namespace thinwire::infer
