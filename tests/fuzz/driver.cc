// Drives a fuzz target, guided by what its code does (GCC's -fsanitize-coverage; GCC brings no
// driver of its own): an input that reaches new edges joins the corpus, and where the code compares
// a part of the input with something else, that part is replaced by it.
//
//   gguf_fuzz --seconds 300 [--seed 1]    until then, or until something is wrong
//   gguf_fuzz FILE...                     these inputs, once each
//
// An input that is taken wrongly (a sanitizer's report, an exception, an abort, more than a second)
// is written to crash-<seed>-<number of the run> in the current folder.
#include <sanitizer/common_interface_defs.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/fuzz/target.h"

namespace thinwire::fuzz {
namespace {

constexpr size_t kEdges = 1 << 15;        // a few thousand are reached
constexpr size_t kMostBytes = 1 << 14;    // of an input
constexpr std::clock_t kMostSeconds = 1;  // of a run

struct Comparison {
  uint64_t found = 0, wanted = 0;
  size_t bytes = 0;
};

// What the instrumented code leaves behind; it can only be reached through fixed functions.
struct Trace {
  std::array<uint8_t, kEdges> edges{};
  std::array<Comparison, 512> comparisons{};
  size_t compared = 0;
  uintptr_t last = 0;
};
Trace trace;  // NOLINT(mutable-global): the compiler calls functions without arguments

void Compared(uint64_t a, uint64_t b, size_t bytes) {
  if (a == b) return;
  trace.comparisons[trace.compared++ % trace.comparisons.size()] = {a, b, bytes};
}

struct Run {
  std::string input;
  uint64_t number = 0;
  uint64_t seed = 0;
};
Run run;  // NOLINT(mutable-global): for the callback that runs when a sanitizer ends the process

void SaveInput() {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "crash-%llu-%llu",
                static_cast<unsigned long long>(run.seed),
                static_cast<unsigned long long>(run.number));
  std::ofstream(name.data(), std::ios::binary) << run.input;
  std::fprintf(stderr, "the input is in %s\n", name.data());
}

[[noreturn]] void Wrong(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  SaveInput();
  std::_Exit(1);
}

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

void RunOnce(const std::string& input) {
  run.input = input;
  ++run.number;
  // Of exactly its size, so that a read past its end is seen.
  const std::vector<uint8_t> copy(input.begin(), input.end());
  const std::clock_t begin =
      std::clock();  // time of this process: a busy machine is nobody's fault
  try {
    LLVMFuzzerTestOneInput(copy.data(), copy.size());
  } catch (const std::exception& error) {
    Wrong(error.what());
  }
  if (std::clock() - begin > kMostSeconds * CLOCKS_PER_SEC) Wrong("took more than a second");
}

class Fuzzer {
 public:
  explicit Fuzzer(uint64_t seed) : dice_(seed) {
    for (const std::string& input : Seeds()) Try(input);
  }

  void Step() {
    std::string input = Pick();
    const size_t changes = 1 + Below(4);
    for (size_t i = 0; i < changes; ++i) Change(input);
    input.resize(std::min(input.size(), kMostBytes));
    Try(input);
  }

  size_t corpus() const { return corpus_.size(); }
  size_t edges() const { return seen_count_; }

 private:
  size_t Below(size_t limit) { return limit == 0 ? 0 : dice_() % limit; }

  // The newer half of the corpus as often as all of it.
  const std::string& Pick() {
    const size_t begin = Below(2) == 0 ? 0 : corpus_.size() / 2;
    return corpus_[begin + Below(corpus_.size() - begin)];
  }

  void Try(const std::string& input) {
    trace.edges.fill(0);
    trace.last = 0;
    RunOnce(input);
    bool found = corpus_.empty();
    for (size_t i = 0; i < kEdges; ++i) {
      if (trace.edges[i] == 0) continue;
      // Once, twice, a few times, often: other loops are other behaviour.
      const uint8_t often = trace.edges[i] > 8 ? 8 : trace.edges[i] > 2 ? 4 : trace.edges[i];
      seen_count_ += seen_[i] == 0;
      found |= (seen_[i] & often) == 0;
      seen_[i] |= often;
    }
    if (found) corpus_.push_back(input);
  }

  void Change(std::string& input) {
    switch (Below(8)) {
      case 0:
        return Overwrite(input, 1, dice_());
      case 1:
        return Overwrite(input, size_t{1} << Below(4), Interesting());
      case 2:
        return Add(input);
      case 3:
        input.erase(Below(input.size()), 1 + Below(16));
        return;
      case 4:
        input.insert(Below(input.size() + 1), Part(input, 1 + Below(64)));
        return;
      case 5:
        return Splice(input);
      default:
        return FollowComparison(input);
    }
  }

  uint64_t Interesting() {
    const uint64_t bit = uint64_t{1} << Below(64);
    switch (Below(4)) {
      case 0:
        return bit;
      case 1:
        return bit - 1;
      case 2:
        return ~bit + 1;
      default:
        return Below(64);
    }
  }

  void Overwrite(std::string& input, size_t bytes, uint64_t value) {
    if (input.size() < bytes) return;
    std::memcpy(input.data() + Below(input.size() - bytes + 1), &value, bytes);
  }

  void Add(std::string& input) {
    const size_t bytes = size_t{1} << Below(4);
    if (input.size() < bytes) return;
    char* const at = input.data() + Below(input.size() - bytes + 1);
    uint64_t value = 0;
    std::memcpy(&value, at, bytes);
    value += Below(2) == 0 ? 1 + Below(32) : ~Below(32);
    std::memcpy(at, &value, bytes);
  }

  std::string Part(const std::string& input, size_t bytes) {
    return input.substr(Below(input.size()), bytes);
  }

  void Splice(std::string& input) {
    const std::string& other = Pick();
    const size_t at = Below(input.size() + 1);
    input = input.substr(0, at) + other.substr(std::min(at, other.size()));
  }

  // Puts what the code wanted where it found something else.
  void FollowComparison(std::string& input) {
    const size_t known = std::min(trace.compared, trace.comparisons.size());
    if (known == 0) return;
    Comparison pair = trace.comparisons[Below(known)];
    if (Below(2) == 0) std::swap(pair.found, pair.wanted);
    const std::string found(reinterpret_cast<const char*>(&pair.found), pair.bytes);
    std::vector<size_t> places;
    for (size_t at = input.find(found); at != std::string::npos && places.size() < 64;
         at = input.find(found, at + 1)) {
      places.push_back(at);
    }
    if (places.empty()) return;
    pair.wanted += Below(4) == 0 ? Below(3) - 1 : 0;  // one off now and then
    std::memcpy(input.data() + places[Below(places.size())], &pair.wanted, pair.bytes);
  }

  std::mt19937_64 dice_;
  std::vector<std::string> corpus_;
  std::array<uint8_t, kEdges> seen_{};
  size_t seen_count_ = 0;
};

int Fuzz(double seconds, uint64_t seed) {
  run.seed = seed;
  Fuzzer fuzzer(seed);
  const auto begin = std::chrono::steady_clock::now();
  double next_line = 1;
  for (double now = 0; now < seconds; now = Seconds(begin)) {
    for (int i = 0; i < 64; ++i) fuzzer.Step();
    if (now < next_line) continue;
    std::printf("%.0f s: %llu runs, %zu edges, corpus of %zu\n", now,
                static_cast<unsigned long long>(run.number), fuzzer.edges(), fuzzer.corpus());
    std::fflush(stdout);
    next_line = 2 * now;
  }
  std::printf("%llu runs in %.0f s, %zu edges, corpus of %zu: nothing wrong\n",
              static_cast<unsigned long long>(run.number), Seconds(begin), fuzzer.edges(),
              fuzzer.corpus());
  return 0;
}

int Main(int argc, char** argv) {
  __sanitizer_set_death_callback(SaveInput);
  double seconds = 0;
  uint64_t seed = std::random_device()();
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--seconds" && i + 1 < argc) {
      seconds = std::strtod(argv[++i], nullptr);
    } else if (word == "--seed" && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      files.push_back(word);
    }
  }
  for (const std::string& name : files) {
    std::ifstream file(name, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "cannot open %s\n", name.c_str());
      return 2;
    }
    RunOnce({std::istreambuf_iterator<char>(file), {}});
  }
  if (files.empty() && !(seconds > 0)) {
    std::fprintf(stderr, "usage: %s --seconds N [--seed S] | FILE...\n", argv[0]);
    return 2;
  }
  return seconds > 0 ? Fuzz(seconds, seed) : 0;
}

}  // namespace
}  // namespace thinwire::fuzz

extern "C" {

// An allocation of what an input announces, instead of what it holds, ends the run.
const char* __asan_default_options() {
  return "max_allocation_size_mb=64:handle_abort=1:detect_leaks=1";
}

void __sanitizer_cov_trace_pc() {
  using thinwire::fuzz::trace;
  const auto here = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  uint8_t& edge = trace.edges[(here ^ trace.last) % thinwire::fuzz::kEdges];
  edge = static_cast<uint8_t>(edge + (edge < 255));
  trace.last = here >> 1;
}
void __sanitizer_cov_trace_cmp1(uint8_t, uint8_t) {}
void __sanitizer_cov_trace_cmp2(uint16_t a, uint16_t b) { thinwire::fuzz::Compared(a, b, 2); }
void __sanitizer_cov_trace_cmp4(uint32_t a, uint32_t b) { thinwire::fuzz::Compared(a, b, 4); }
void __sanitizer_cov_trace_cmp8(uint64_t a, uint64_t b) { thinwire::fuzz::Compared(a, b, 8); }
void __sanitizer_cov_trace_const_cmp1(uint8_t, uint8_t) {}
void __sanitizer_cov_trace_const_cmp2(uint16_t a, uint16_t b) { thinwire::fuzz::Compared(a, b, 2); }
void __sanitizer_cov_trace_const_cmp4(uint32_t a, uint32_t b) { thinwire::fuzz::Compared(a, b, 4); }
void __sanitizer_cov_trace_const_cmp8(uint64_t a, uint64_t b) { thinwire::fuzz::Compared(a, b, 8); }
void __sanitizer_cov_trace_cmpf(float, float) {}
void __sanitizer_cov_trace_cmpd(double, double) {}
void __sanitizer_cov_trace_switch(uint64_t value, const uint64_t* cases) {
  for (uint64_t i = 0; i < cases[0]; ++i) {
    thinwire::fuzz::Compared(value, cases[2 + i], cases[1] / 8);
  }
}

}  // extern "C"

int main(int argc, char** argv) { return thinwire::fuzz::Main(argc, argv); }
