// The three kinds of failure, and how their messages are built.
//
//   UsageError  the user's input is wrong: a config key, a size, a file. Says what to change.
//   PeerError   another rank died, went silent or disagrees. Ends the run on every rank.
//   IoError     the disk or the file system failed.
//   THINWIRE_CHECK  a bug in thinwire itself; always on, throws InternalError.
//
// Messages name the rank, the parameter or file, what was expected and found, and the one
// setting to change.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace thinwire {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class UsageError : public Error {
 public:
  using Error::Error;
};

class PeerError : public Error {
 public:
  using Error::Error;
};

class IoError : public Error {
 public:
  using Error::Error;
};

class InternalError : public Error {
 public:
  using Error::Error;
};

// The parts, each printed with operator<<, as one string.
template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace thinwire

// THINWIRE_CHECK(condition, parts of a message...)
#define THINWIRE_CHECK(condition, ...)                                                             \
  do {                                                                                             \
    if (!(condition)) [[unlikely]] {                                                               \
      throw ::thinwire::InternalError(::thinwire::StrCat(                                          \
          __FILE__, ":", __LINE__, ": check failed: " #condition " " __VA_OPT__(, ) __VA_ARGS__)); \
    }                                                                                              \
  } while (false)
