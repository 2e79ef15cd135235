// Fixed-size records that every rank sends to every other one on the control transport: what each
// is about to do, and a few values. Nothing whose size depends on the program is sent before the
// ranks have agreed on it here.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/transport/transport.h"

namespace thinwire::comm {

// What must be equal on all ranks is `intent`; `values` and `flags` may differ and are shared.
struct Record {
  std::array<char, 80>
      intent{};              // for people too, e.g. "gather of layers.3, 12288 bytes"; cut to fit
  uint64_t fingerprint = 0;  // of everything the intent stands for
  std::array<double, 4> values{};
  uint64_t flags = 0;

  // Flags of Exchange itself. A rank that follows accepts whatever the others agree on, and reads
  // it in their records; they must have said that they may be followed in it.
  static constexpr uint64_t kFollows = uint64_t{1} << 63;
  static constexpr uint64_t kMayBeFollowed = uint64_t{1} << 62;
  static constexpr uint64_t kFreeFlags = kMayBeFollowed - 1;  // for whatever the caller wants
  bool follows() const { return (flags & kFollows) != 0; }

  // printf-style, so that a step allocates nothing.
  [[gnu::format(printf, 3, 4)]] void SetIntent(uint64_t hash, const char* format, ...);
  std::string_view Intent() const;
};

// How long a rank that has come to an exchange waits for one that lives but does not come.
enum class Patience : uint8_t {
  kEndless,  // slowness is no error
  kBounded,  // what all ranks call together: somebody has forgotten to
};

// Whom a rank waits for in Exchange or Sum, and for what.
struct Waiting {
  int peer = -1;  // -1: nobody
  Patience patience = Patience::kEndless;
  std::chrono::steady_clock::time_point since{};
  std::array<char, 80> intent{};  // of the record, ends with a 0

  std::string_view Intent() const { return intent.data(); }
};

class Agreement {
 public:
  Agreement(transport::Transport& control, ExecContext context);

  // Returns every rank's record, by rank; valid until the next call. All ranks call it the same
  // number of times. Throws PeerError, the same on every rank, when the intents of those that do
  // not follow differ, or when they cannot be followed: it names the ranks and what each wanted.
  // Patience is the watchdog's (watchdog.h).
  std::span<const Record> Exchange(const Record& mine, Patience patience = Patience::kEndless);

  // Also for other threads, and after an Exchange that threw because of a peer.
  Waiting waiting() const;

  // values[i] becomes the sum of all ranks' values[i], in rank order: the same bits on every rank,
  // whose spans must be of one size. For small arrays: each goes to every rank.
  void Sum(std::span<double> values);
  // Room for sums of so many values, so that Sum allocates nothing.
  void Reserve(size_t values);

  int64_t sent_bytes() const { return sent_bytes_; }

 private:
  // Sends mine to every other rank and receives theirs, by rank and `stride` bytes each, at `all`.
  void Share(std::span<std::byte> all, size_t stride);

  void BeginToWait(std::string_view intent, Patience patience);

  transport::Transport& control_;
  ExecContext context_;
  std::vector<Record> records_;  // by rank; received into
  std::vector<transport::Token> tokens_;
  std::vector<double> summands_;  // by rank; received into
  uint32_t sequence_ = 0;
  int64_t sent_bytes_ = 0;
  mutable std::mutex waiting_mutex_;
  Waiting waiting_;
};

// The sum of values[which] over ranks, in rank order: the same bits on every rank.
double SumOf(std::span<const Record> records, size_t which);

}  // namespace thinwire::comm
