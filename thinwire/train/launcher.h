// One machine without torchrun: starts K copies of this program as ranks 0..K-1 and looks after
// them until the last has ended.
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::train {

struct LaunchOptions {
  int ranks = 1;
  std::vector<std::string> arguments;  // of each copy, without the program's name
  std::string program = "/proc/self/exe";
  // After one rank has failed the others get this long to end by themselves.
  std::chrono::milliseconds grace{60'000};
};

// The ranks get torchrun's variables, a free port, and OMP_NUM_THREADS so that they share the
// cores. Rank 0's output passes; of the other ranks only what they write to stderr, each message
// once. SIGINT and SIGTERM are handed on. The ranks die with this process. Returns the exit code of
// the first rank that failed (128 + signal when a signal ended it), 0 when none did. Throws
// UsageError for a number of ranks that makes no sense or when a launcher's variables are set
// already.
int Launch(const LaunchOptions& options);

// Throws UsageError when another launcher's variables are set, which --ranks would overrule.
void RequireNoLauncher();

// Lines that several ranks write, each shown once: what follows "thinwire: rank R: " counts.
class SharedLines {
 public:
  // True when `line` says something new.
  bool IsNew(std::string_view line);

 private:
  std::set<std::string, std::less<>> seen_;
};

}  // namespace thinwire::train
