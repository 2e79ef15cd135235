// Runs the ranks of a test as threads. A rank that throws aborts all others, so that a failing test
// ends instead of hanging, and its error is the one the caller sees.
#pragma once

#include <exception>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <thread>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/transport/thread_transport.h"

namespace thinwire::transport {

// Calls body(rank) on one thread per rank of the fabrics (all of one size) and returns when all
// have ended. Rethrows the first error, but an error that is no PeerError before any that is: those
// are usually its echo.
inline void RunRanks(std::initializer_list<ThreadFabric*> fabrics,
                     const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr first_error;
  bool first_is_echo = false;
  const int size = (*fabrics.begin())->size();

  const auto fail = [&](int rank, const char* what, bool is_echo) {
    {
      std::lock_guard lock(mutex);
      if (!first_error || (first_is_echo && !is_echo)) {
        first_error = std::current_exception();
        first_is_echo = is_echo;
      }
    }
    const std::string reason = StrCat("rank ", rank, " failed: ", what);
    for (ThreadFabric* fabric : fabrics) {
      for (int r = 0; r < size; ++r) fabric->transport(r).Abort(reason);
    }
  };

  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const PeerError& error) {
        fail(rank, error.what(), true);
      } catch (const std::exception& error) {
        fail(rank, error.what(), false);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first_error) std::rethrow_exception(first_error);
}

inline void RunRanks(ThreadFabric& fabric, const std::function<void(int)>& body) {
  RunRanks({&fabric}, body);
}

// On a fabric of its own.
inline void RunRanks(int size, const std::function<void(Transport&)>& body) {
  ThreadFabric fabric(size);
  RunRanks({&fabric}, [&](int rank) { body(fabric.transport(rank)); });
}

}  // namespace thinwire::transport
