// For benchmarks only: kernels against the memory. Each runs on one thread over arrays of 64 MiB,
// in turns with its "roof", a plain loop that reads and writes the same bytes of the same arrays.
// The bar is about the ratio of both throughputs. To be little disturbed by what else the machine
// does, they take turns every 1/16 of the arrays, the time is the thread's own, and the ratio the
// median of several rounds. Results are verified before they are timed.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/context.h"
#include "thinwire/base/error.h"

namespace thinwire::kernels {

constexpr int64_t kElements = int64_t{16} << 20;
constexpr double kBar = 0.8;

// Elements of the arrays that a call works on.
struct Range {
  int64_t begin;
  int64_t size;
  template <typename T>
  std::span<T> Of(std::span<T> all) const {
    return all.subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
  }
};

struct Case {
  std::string name;
  double bytes;  // read and written per element
  std::function<void(const ExecContext&, Range)> kernel;
  std::function<void(Range)> roof;
  std::vector<std::span<std::byte>> results;  // what the kernel writes
  int64_t elements = kElements;
  bool has_bar = true;
};

// What the kernel writes for an odd number of elements, from the arrays as they are and stay.
inline std::vector<std::byte> ResultOf(const Case& c, Isa isa) {
  constexpr int64_t kSize = 100'003;
  std::vector<std::span<std::byte>> parts;  // no fewer bytes than the kernel writes
  for (const auto r : c.results) parts.push_back(r.first(std::min<size_t>(r.size(), 4 * kSize)));
  std::vector<std::byte> before, after;
  for (const auto part : parts) before.insert(before.end(), part.begin(), part.end());
  c.kernel({isa}, {0, kSize});
  const std::byte* restore = before.data();
  for (const auto part : parts) {
    after.insert(after.end(), part.begin(), part.end());
    std::memcpy(part.data(), restore, part.size());
    restore += part.size();
  }
  return after;
}

struct Measured {
  double ratio;  // of the throughputs, kernel to roof
  double gigabytes_per_second;
};

inline double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

inline Measured Measure(const Case& c, Isa isa, int rounds) {
  constexpr int64_t kParts = 16;
  const int64_t part_size = c.elements / kParts;
  const auto seconds = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  std::vector<double> ratios, kernels;
  for (int round = 0; round < rounds; ++round) {
    double roof = 0, kernel = 0;
    for (int64_t part = 0; part < kParts; ++part) {
      const double start = seconds();
      c.roof({part * part_size, part_size});
      const double middle = seconds();
      // Half the arrays away, where nothing is left in the cache.
      c.kernel({isa}, {(part + kParts / 2) % kParts * part_size, part_size});
      roof += middle - start;
      kernel += seconds() - middle;
    }
    kernels.push_back(kernel);
    ratios.push_back(roof / kernel);
  }
  return {Median(ratios), c.bytes * static_cast<double>(c.elements) / Median(kernels) / 1e9};
}

inline std::string Machine() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

struct BenchOptions {
  bool quick = false;
  bool json_only = false;
  std::string filter;  // part of the names of the cases to run
};

// [--quick] [--json] [--only=TEXT]. Throws UsageError on others.
inline BenchOptions ParseBenchOptions(std::span<char*> arguments) {
  BenchOptions options;
  for (const std::string_view argument : arguments) {
    if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--json") {
      options.json_only = true;
    } else if (argument.starts_with("--only=")) {
      options.filter = argument.substr(argument.find('=') + 1);
    } else {
      throw UsageError(StrCat("unknown argument ", argument, ": use --quick, --json, --only=TEXT"));
    }
  }
  return options;
}

// Verifies and times each case on each instruction set. Prints a table (not with --json) and one
// JSON object on the last line.
inline void RunCases(std::string_view bench, const std::vector<Case>& cases,
                     const BenchOptions& options) {
  const int rounds = options.quick ? 5 : 21;
  nlohmann::ordered_json out{{"bench", bench},
                             {"machine", Machine()},
                             {"rounds", rounds},
                             {"bars", nlohmann::ordered_json::array()},
                             {"without_bar", nlohmann::ordered_json::array()}};
  for (const Case& c : cases) {
    if (c.name.find(options.filter) == std::string::npos) continue;
    for (const Isa isa : SupportedIsas()) {
      const std::string name = StrCat(c.name, ", ", NameOf(isa));
      if (ResultOf(c, isa) != ResultOf(c, Isa::kScalar)) {
        throw InternalError(name + ": other bits than scalar");
      }
      const Measured measured = Measure(c, isa, rounds);
      if (!options.json_only) {
        std::printf("%-40s %6.1f GB/s  %5.2f of the roof\n", name.c_str(),
                    measured.gigabytes_per_second, measured.ratio);
        std::fflush(stdout);
      }
      nlohmann::ordered_json line{{"name", name}, {"value", measured.ratio}};
      const bool has_bar = c.has_bar && isa != Isa::kScalar;
      if (has_bar) {
        line["bar"] = kBar;
        line["holds"] = measured.ratio >= kBar;
      }
      line["gigabytes_per_second"] = measured.gigabytes_per_second;
      out[has_bar ? "bars" : "without_bar"].push_back(line);
    }
  }
  std::printf("%s\n", out.dump().c_str());
}

// Runs `make_cases`, which may take long, after the arguments were found good. The exit code.
template <typename MakeCases>
int BenchMain(std::string_view bench, int argc, char** argv, const MakeCases& make_cases) {
  try {
    const BenchOptions options =
        ParseBenchOptions(std::span(argv + 1, static_cast<size_t>(argc - 1)));
    RunCases(bench, make_cases(), options);
    return 0;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "%s_bench: %s\n", std::string(bench).c_str(), error.what());
    return 2;
  }
}

}  // namespace thinwire::kernels
