// Kernels against the memory: each on fp32 arrays of 64 MiB and halves of 32 MiB, one thread, in
// turns with the "roof", a plain loop that reads and writes the same bytes of the same arrays. The
// bar is about the ratio of both throughputs. To be little disturbed by what else the machine does,
// they take turns every 1/16 of the arrays, the time is the thread's own, and the ratio the median
// of several rounds. Results are verified before they are timed.
//
//   kernels_bench [--quick] [--json]
//
// prints a table (not with --json) and one JSON object on the last line.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/base/context.h"
#include "thinwire/base/random.h"
#include "thinwire/kernels/adamw.h"
#include "thinwire/kernels/convert.h"
#include "thinwire/kernels/sum.h"

namespace thinwire::kernels {
namespace {

constexpr int64_t kElements = int64_t{16} << 20;
constexpr double kBar = 0.8;
constexpr float kDivisor =
    1.0001f;  // no power of two; few rounds leave the numbers where they were

// The roofs. Vector code whatever the instruction set of the kernel: with scalar loops the memory
// would not be the limit. `zero` is 0, which the compiler does not know: arrays keep their values.
#pragma GCC push_options
#pragma GCC optimize("O3")
#if defined(__x86_64__)
#pragma GCC target("avx2")
#endif

template <typename In, typename Out>
[[gnu::noinline]] void CopyRoof(const In* in, Out* out, int64_t size) {
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) out[i] = static_cast<Out>(in[i]);
}

template <typename... In>
[[gnu::noinline]] void SumRoof(uint32_t* out, int64_t size, const In*... in) {
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) out[i] = (uint32_t{in[i]} ^ ...);
}

[[gnu::noinline]] void UpdateRoof(uint32_t* x, uint32_t zero, int64_t size) {
  for (int64_t i = 0; i < size; ++i) x[i] ^= zero;
}

[[gnu::noinline]] uint32_t ReadRoof(const uint32_t* x, int64_t size) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += x[i];
  return sum;
}

[[gnu::noinline]] void AdamWRoof(const uint32_t* grad, uint32_t* master, uint32_t* m, uint32_t* v,
                                 uint32_t zero, int64_t size) {
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) {
    const uint32_t nothing = grad[i] & zero;
    master[i] ^= nothing;
    m[i] ^= nothing;
    v[i] ^= nothing;
  }
}

#pragma GCC pop_options

// fp32 arrays of 64 MiB, and the same numbers in halves.
struct Arrays {
  AlignedBuffer fp32[4], sum{kElements * 4}, bf16[4], fp16{kElements * 2}, half{kElements * 2};
  double squares = 0;

  Arrays() {
    const ExecContext context;
    for (size_t a = 0; a < 4; ++a) {
      fp32[a] = AlignedBuffer(kElements * 4);
      bf16[a] = AlignedBuffer(kElements * 2);
      const CounterRandom random(a);
      for (int64_t i = 0; i < kElements; ++i) {
        // Array 3 is AdamW's v, which is not negative.
        const double x = 2 * random.Uniform(static_cast<uint64_t>(i)) - (a == 3 ? 0 : 1);
        fp32[a].As<float>()[static_cast<size_t>(i)] = static_cast<float>(x);
      }
      Convert(context, Words(a), Array(bf16[a].data(), DType::kBF16, kElements));
    }
    Convert(context, Words(0), Array(fp16.data(), DType::kF16, kElements));
  }

  ConstArray Words(size_t a) const { return {fp32[a].data(), DType::kF32, kElements}; }
  ConstArray Halves(size_t a) const { return {bf16[a].data(), DType::kBF16, kElements}; }
  uint32_t* U32(size_t a) const { return fp32[a].As<uint32_t>().data(); }
  uint16_t* U16(size_t a) const { return bf16[a].As<uint16_t>().data(); }
};

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
};

Case ConvertCase(std::string name, ConstArray in, Array out, std::function<void(Range)> roof) {
  const double bytes = static_cast<double>(SizeOf(in.dtype) + SizeOf(out.dtype));
  const auto kernel = [=](const ExecContext& context, Range r) {
    Convert(context, in.Sub(r.begin, r.size), out.Sub(r.begin, r.size));
  };
  const std::span<std::byte> result(out.data, static_cast<size_t>(out.bytes()));
  return {std::move(name), bytes, kernel, std::move(roof), {result}};
}

void AddConvertCases(Arrays& a, std::vector<Case>& cases) {
  uint32_t* words = a.U32(0);
  uint16_t* half = a.half.As<uint16_t>().data();
  uint32_t* sum = a.sum.As<uint32_t>().data();
  const uint16_t* bf16 = a.U16(0);
  const uint16_t* fp16 = a.fp16.As<uint16_t>().data();
  const auto narrow = [=](Range r) { CopyRoof(words + r.begin, half + r.begin, r.size); };
  const Array to_bf16(a.half.data(), DType::kBF16, kElements);
  const Array to_fp16(a.half.data(), DType::kF16, kElements);
  const Array to_fp32 = a.sum.As<float>();
  const ConstArray from_fp16(a.fp16.data(), DType::kF16, kElements);
  cases.push_back(ConvertCase("fp32 to bf16", a.Words(0), to_bf16, narrow));
  cases.push_back(ConvertCase("fp32 to fp16", a.Words(0), to_fp16, narrow));
  cases.push_back(ConvertCase("bf16 to fp32", a.Halves(0), to_fp32,
                              [=](Range r) { CopyRoof(bf16 + r.begin, sum + r.begin, r.size); }));
  cases.push_back(ConvertCase("fp16 to fp32", from_fp16, to_fp32,
                              [=](Range r) { CopyRoof(fp16 + r.begin, sum + r.begin, r.size); }));
}

Case SumCase(Arrays& a, DType dtype, size_t count) {
  std::vector<ConstArray> terms;
  for (size_t t = 0; t < count; ++t) {
    terms.push_back(dtype == DType::kF32 ? a.Words(t) : a.Halves(t));
  }
  const auto kernel = [&a, terms, parts = terms](const ExecContext& context, Range r) mutable {
    for (size_t t = 0; t < terms.size(); ++t) parts[t] = terms[t].Sub(r.begin, r.size);
    SumInOrder(context, parts, false, r.Of(a.sum.As<float>()));
  };
  const auto roof = [&a, dtype, count](Range r) {
    uint32_t* out = a.sum.As<uint32_t>().data() + r.begin;
    const auto run = [&](const auto& at) {
      if (count == 2) return SumRoof(out, r.size, at(0), at(1));
      SumRoof(out, r.size, at(0), at(1), at(2), at(3));
    };
    if (dtype == DType::kF32) return run([&](size_t t) { return a.U32(t) + r.begin; });
    run([&](size_t t) { return a.U16(t) + r.begin; });
  };
  return {StrCat("sum of ", count, " ", NameOf(dtype)),
          static_cast<double>(SizeOf(dtype)) * static_cast<double>(count) + 4,
          kernel,
          roof,
          {a.sum.bytes()}};
}

std::vector<Case> Cases(Arrays& a, uint32_t zero) {
  std::vector<Case> cases;
  const auto words = [&a](size_t i, Range r) { return r.Of(a.fp32[i].As<float>()); };
  const auto u32 = [&a](size_t i, Range r) { return a.U32(i) + r.begin; };
  const AdamWStep step{.lr = 1e-4f, .weight_decay = 0.1f, .grad_scale = 0.5f, .step = 10};
  cases.push_back(
      {"adamw",
       28,
       [=](const ExecContext& context, Range r) {
         AdamW(context, step, words(0, r), words(1, r), words(2, r), words(3, r));
       },
       [=](Range r) { AdamWRoof(u32(0, r), u32(1, r), u32(2, r), u32(3, r), zero, r.size); },
       {a.fp32[1].bytes(), a.fp32[2].bytes(), a.fp32[3].bytes()}});
  AddConvertCases(a, cases);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const size_t count : {size_t{2}, size_t{4}}) cases.push_back(SumCase(a, dtype, count));
  }
  cases.push_back({"sum of squares",
                   4,
                   [&a, words](const ExecContext& context, Range r) {
                     a.squares = SumOfSquares(context, words(0, r));
                   },
                   [&a, u32](Range r) { a.squares = ReadRoof(u32(0, r), r.size); },
                   {std::as_writable_bytes(std::span(&a.squares, 1))}});
  cases.push_back(
      {"divide",
       8,
       [words](const ExecContext& context, Range r) { Divide(context, words(0, r), kDivisor); },
       [u32, zero](Range r) { UpdateRoof(u32(0, r), zero, r.size); },
       {a.fp32[0].bytes()}});
  return cases;
}

// What the kernel writes for an odd number of elements, from the arrays as they are and stay.
std::vector<std::byte> ResultOf(const Case& c, Isa isa) {
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

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

Measured Measure(const Case& c, Isa isa, int rounds) {
  constexpr int64_t kParts = 16, kPart = kElements / kParts;
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
      c.roof({part * kPart, kPart});
      const double middle = seconds();
      // Half the arrays away, where nothing is left in the cache.
      c.kernel({isa}, {(part + kParts / 2) % kParts * kPart, kPart});
      roof += middle - start;
      kernel += seconds() - middle;
    }
    kernels.push_back(kernel);
    ratios.push_back(roof / kernel);
  }
  return {Median(ratios), c.bytes * kElements / Median(kernels) / 1e9};
}

std::string Machine() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

int Run(bool quick, bool json_only) {
  const int rounds = quick ? 5 : 21;
  volatile uint32_t zero = 0;
  const auto arrays = std::make_unique<Arrays>();
  nlohmann::ordered_json out{{"bench", "kernels"},
                             {"machine", Machine()},
                             {"rounds", rounds},
                             {"bars", nlohmann::ordered_json::array()},
                             {"scalar", nlohmann::ordered_json::array()}};
  for (const Case& c : Cases(*arrays, zero)) {
    for (const Isa isa : SupportedIsas()) {
      const std::string name = StrCat(c.name, ", ", NameOf(isa));
      if (ResultOf(c, isa) != ResultOf(c, Isa::kScalar)) {
        throw InternalError(name + ": other bits than scalar");
      }
      const Measured measured = Measure(c, isa, rounds);
      if (!json_only) {
        std::printf("%-24s %6.1f GB/s  %5.2f of the roof\n", name.c_str(),
                    measured.gigabytes_per_second, measured.ratio);
      }
      nlohmann::ordered_json line{{"name", name}, {"value", measured.ratio}};
      if (isa != Isa::kScalar) {
        line["bar"] = kBar;
        line["holds"] = measured.ratio >= kBar;
      }
      line["gigabytes_per_second"] = measured.gigabytes_per_second;
      out[isa == Isa::kScalar ? "scalar" : "bars"].push_back(line);
    }
  }
  std::printf("%s\n", out.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace thinwire::kernels

int main(int argc, char** argv) {
  bool quick = false, json_only = false;
  for (const std::string_view argument : std::span(argv + 1, static_cast<size_t>(argc - 1))) {
    if (argument == "--quick") {
      quick = true;
    } else if (argument == "--json") {
      json_only = true;
    } else {
      std::fprintf(stderr, "kernels_bench: unknown argument %s; use --quick, --json\n",
                   std::string(argument).c_str());
      return 2;
    }
  }
  return thinwire::kernels::Run(quick, json_only);
}
