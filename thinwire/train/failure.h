// How a rank ends when something went wrong: one line, told to the peers, and no waiting.
#pragma once

#include <exception>
#include <string>

#include "thinwire/transport/heartbeat.h"

namespace thinwire::train {

struct Failure {
  std::string message;  // one line
  int exit_code = 1;    // 2 for UsageError
};

Failure FailureOf(const std::exception_ptr& error);

// Prints "thinwire: rank R: message" to stderr, shows it on the board when there is one, and ends
// the process: no destructor runs, so that threads that wait for a lost peer cannot hold it. Rank
// 0, which may host the board, first gives the others a second to read it.
[[noreturn]] void EndProcess(int rank, const Failure& failure, transport::HeartbeatBoard* board);

}  // namespace thinwire::train
