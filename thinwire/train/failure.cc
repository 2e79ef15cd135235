#include "thinwire/train/failure.h"

#include <unistd.h>

#include <cctype>
#include <chrono>
#include <cstdio>
#include <new>
#include <string_view>
#include <thread>

#include "thinwire/base/error.h"
#include "thinwire/torch/short_reason.h"

namespace thinwire::train {
namespace {

// The store may be gone with the peer that hosted it; this long it may take to say so.
constexpr std::chrono::seconds kTimeToTellPeers{5};
// Rank 0 may host the store, where peers look for the first failure twice a second
// (comm/watchdog.h): if it went at once, they would blame it.
constexpr std::chrono::milliseconds kTimeToReadStore{1000};

// Whether the message says which rank it is about: its own, or the one that failed first.
bool NamesRank(std::string_view message) {
  constexpr std::string_view kRank = "rank ";
  return message.starts_with(kRank) && message.size() > kRank.size() &&
         std::isdigit(static_cast<unsigned char>(message[kRank.size()])) != 0;
}

std::string OneLine(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

}  // namespace

Failure FailureOf(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const UsageError& usage) {
    return {OneLine(usage.what()), 2};
  } catch (const Error& known) {
    return {OneLine(known.what()), 1};
  } catch (const std::bad_alloc&) {
    return {"out of memory; take a smaller model, micro_batch or sequence_length, or more ranks",
            1};
  } catch (const std::exception& other) {
    return {OneLine(adapter::ShortReason(other)), 1};
  } catch (...) {
    return {"an unknown error", 1};
  }
}

void EndProcess(int rank, const Failure& failure, transport::HeartbeatBoard* board) {
  const std::string line =
      NamesRank(failure.message) ? failure.message : StrCat("rank ", rank, ": ", failure.message);
  std::fflush(stdout);
  std::fprintf(stderr, "thinwire: %s\n", line.c_str());
  std::fflush(stderr);
  if (board != nullptr) {
    std::thread([code = failure.exit_code] {
      std::this_thread::sleep_for(kTimeToTellPeers);
      _exit(code);
    }).detach();
    try {
      board->DeclareFailure(line);
      if (rank == 0) std::this_thread::sleep_for(kTimeToReadStore);
    } catch (...) {  // NOLINT(bugprone-empty-catch): peers will see the silence instead
    }
  }
  _exit(failure.exit_code);
}

}  // namespace thinwire::train
