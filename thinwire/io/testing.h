// For tests: a fresh directory that goes away with its owner, and error messages as values.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "thinwire/base/error.h"

namespace thinwire::io {

class TestDirectory {
 public:
  // In memory where the system offers that: tests sync often, and on a disk that takes 10 ms each.
  TestDirectory() {
    const bool memory = ::access("/dev/shm", W_OK) == 0;
    path_ = memory ? "/dev/shm" : std::filesystem::temp_directory_path().string();
    path_ += "/thinwire-XXXXXX";
    THINWIRE_CHECK(::mkdtemp(path_.data()) != nullptr, path_);
  }
  ~TestDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// What `call` throws, or why that is not an E.
template <typename E, typename Call>
std::string MessageOf(const Call& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return StrCat("another kind of error: ", error.what());
  }
  return "no error";
}

}  // namespace thinwire::io

#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << (text) << "\n  lacks: " << (part)
