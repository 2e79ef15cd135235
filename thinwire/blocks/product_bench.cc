// Products of packed weights against what bounds them, on one core.
//
//   few/<type>/<rows>x<columns>/<tokens>   GB/s of weights, and as a part of a plain read of the
//                                          same bytes, which the memory bounds
//   many/<type>/<rows>x<columns>/<tokens>  billions of additions and multiplications per second,
//                                          and as a part of what vpdpbusd (fp32 weights: vfmadd) on
//                                          registers alone gives
//   pack/<type>                            GB/s of weights
//
// Few: as many copies of the matrix as fill 128 MB, so that none is in a cache. The bounds are
// measured in turn with the products, in parts of 0.1 ms of which the fastest rounds count: the
// machine may be shared.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>
#include <vector>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/base/random.h"
#include "thinwire/blocks/product.h"

#if defined(__x86_64__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

namespace thinwire::blocks {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

#if defined(__x86_64__)
#define THINWIRE_BENCH_AVX512 [[gnu::target("avx512f,avx512vnni,avx512bw"), gnu::noinline]]

THINWIRE_BENCH_AVX512 int64_t Read(const std::byte* in, int64_t bytes) {
  __m512i sum[4] = {};
  for (int64_t i = 0; i + 256 <= bytes; i += 256) {
    for (int k = 0; k < 4; ++k)
      sum[k] = _mm512_or_si512(sum[k], _mm512_loadu_si512(in + i + 64 * k));
  }
  alignas(64) int64_t parts[8];
  _mm512_store_si512(parts, sum[0] | sum[1] | sum[2] | sum[3]);
  return parts[0] | parts[1] | parts[2] | parts[3] | parts[4] | parts[5] | parts[6] | parts[7];
}

// Additions and multiplications done.
THINWIRE_BENCH_AVX512 double DotProducts(int64_t rounds, std::byte* result) {
  __m512i sum[12] = {};
  const __m512i x = _mm512_set1_epi8(3);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int k = 0; k < 12; ++k) {
      asm volatile("vpdpbusd %1, %1, %0" : "+v"(sum[k]) : "v"(x));
    }
  }
#pragma GCC unroll 12
  for (int k = 0; k < 12; ++k) sum[0] = _mm512_add_epi32(sum[0], sum[k]);
  _mm512_storeu_si512(result, sum[0]);
  return static_cast<double>(rounds) * 12 * 128;
}

THINWIRE_BENCH_AVX512 double FloatProducts(int64_t rounds, std::byte* result) {
  __m512 sum[12] = {};
  const __m512 x = _mm512_set1_ps(3);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int k = 0; k < 12; ++k) {
      asm volatile("vfmadd231ps %1, %1, %0" : "+v"(sum[k]) : "v"(x));
    }
  }
#pragma GCC unroll 12
  for (int k = 0; k < 12; ++k) sum[0] = _mm512_add_ps(sum[0], sum[k]);
  _mm512_storeu_ps(result, sum[0]);
  return static_cast<double>(rounds) * 12 * 32;
}
#endif

struct Matrices {
  AlignedBuffer memory;
  std::vector<Product> products;

  Matrices(WeightType type, int64_t rows, int64_t columns, int64_t at_least) {
    const int64_t bytes = PackedMatrix::Bytes(type, rows, columns, "bench");
    const int64_t copies = std::max<int64_t>(1, at_least / bytes);
    const int64_t stride = AlignUp(bytes);
    memory = AlignedBuffer(copies * stride);
    const CounterRandom random(1);
    // No exponent of any scale is all ones.
    for (int64_t i = 0; i < memory.size() / 8; ++i) {
      memory.As<uint64_t>()[static_cast<size_t>(i)] =
          random.Bits(static_cast<uint64_t>(i)) & 0x3f3f3f3f3f3f3f3f;
    }
    for (int64_t c = 0; c < copies; ++c) {
      products.push_back({PackedMatrix(
          type, rows, columns,
          memory.bytes().subspan(static_cast<size_t>(c * stride), static_cast<size_t>(bytes)))});
    }
  }
};

struct Shape {
  WeightType type;
  int64_t rows, columns, tokens;
};

struct Inputs {
  AlignedBuffer x, activation_memory, out, scratch;
  Activations activations;

  Inputs(const Shape& shape, Isa isa)
      : x(shape.tokens * shape.columns * 4),
        activation_memory(Activations::Bytes(FormFor(shape.type), shape.tokens, shape.columns)),
        out(shape.tokens * AlignUp(shape.rows * 4)),
        scratch(ScratchBytes(shape.type, shape.columns)),
        activations(FormFor(shape.type), shape.tokens, shape.columns, activation_memory.bytes()) {
    const CounterRandom random(2);
    for (int64_t i = 0; i < shape.tokens * shape.columns; ++i) {
      x.As<float>()[static_cast<size_t>(i)] =
          static_cast<float>(random.Uniform(static_cast<uint64_t>(i))) - 0.5f;
    }
    activations.Set({isa}, x.As<float>().data(), shape.columns);
  }
};

#if defined(__x86_64__)
// Seconds for what bounds a product of `groups` groups: those in memory, and half of all away.
double Bound(const Shape& shape, bool few, const Matrices& matrices, int64_t begin, int64_t end) {
  const auto start = Clock::now();
  if (few) {
    const int64_t group_bytes = matrices.memory.size() / Groups(matrices.products);
    benchmark::DoNotOptimize(
        Read(matrices.memory.data() + begin * group_bytes, (end - begin) * group_bytes));
    return Seconds(start);
  }
  const bool floats = FormFor(shape.type) == ActivationForm::kFloat;
  alignas(64) std::byte result[64];
  const double done = floats ? FloatProducts(2000, result) : DotProducts(2000, result);
  benchmark::DoNotOptimize(result);
  const double operations = 32.0 * static_cast<double>(shape.columns * shape.tokens);
  return Seconds(start) * operations * static_cast<double>(end - begin) / done;
}
#else
double Bound(const Shape&, bool, const Matrices&, int64_t, int64_t) { return 0; }
#endif

void Run(benchmark::State& state, const Shape& shape, Isa isa, bool few) {
  Matrices matrices(shape.type, shape.rows, shape.columns, few ? 128 << 20 : 0);
  Inputs in(shape, isa);
  for (Product& product : matrices.products) {
    product.out = in.out.As<float>().data();
    product.stride = AlignUp(shape.rows * 4) / 4;
  }
  // Parts of about 0.1 ms: few are interrupted every time.
  const int64_t groups = Groups(matrices.products);
  const int64_t work = few ? matrices.memory.size() : 16 * groups * shape.columns * shape.tokens;
  const int64_t parts = std::max<int64_t>(1, std::min(groups, work / (few ? 1 << 21 : 16 << 20)));
  const auto begin = [&](int64_t part) { return groups * (part % parts) / parts; };
  const auto end = [&](int64_t part) { return groups * (part % parts + 1) / parts; };
  std::vector<double> best(static_cast<size_t>(parts), 1e9), bound(best);
  for (auto _ : state) {
    double seconds = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const auto start = Clock::now();
      Multiply({isa}, matrices.products, in.activations, begin(part), end(part),
               in.scratch.bytes());
      const double took = Seconds(start);
      seconds += took;
      double& fastest = best[static_cast<size_t>(part)];
      fastest = std::min(fastest, took);
      const int64_t other = (part + parts / 2) % parts;  // long out of the cache
      double& least = bound[static_cast<size_t>(other)];
      least = std::min(least, Bound(shape, few, matrices, begin(other), end(other)));
    }
    state.SetIterationTime(seconds);
  }
  const double took = std::accumulate(best.begin(), best.end(), 0.0);
  const double amount = few ? static_cast<double>(matrices.memory.size())
                            : 2.0 * static_cast<double>(shape.rows * shape.columns * shape.tokens);
  state.counters[few ? "GB/s" : "GOP/s"] = amount / took / 1e9;
  state.counters["of_bound"] = std::accumulate(bound.begin(), bound.end(), 0.0) / took;
}

void Pack(benchmark::State& state, WeightType type) {
  constexpr int64_t kRows = 49152, kColumns = 768;
  const int64_t bytes = PackedMatrix::Bytes(type, kRows, kColumns, "bench");
  const AlignedBuffer memory(bytes), file(bytes);
  const PackedMatrix packed(type, kRows, kColumns, memory.bytes());
  double best = 1e9;
  for (auto _ : state) {
    const auto start = Clock::now();
    packed.Pack(0, file.bytes());
    best = std::min(best, Seconds(start));
    state.SetIterationTime(best);
  }
  state.counters["GB/s"] = static_cast<double>(bytes) / best / 1e9;
}

}  // namespace
}  // namespace thinwire::blocks

int main(int argc, char** argv) {
  using namespace thinwire::blocks;  // NOLINT: a main
  using thinwire::WeightType;
  const auto add = [](const Shape& s, thinwire::Isa isa, bool few) {
    const std::string name = thinwire::StrCat(few ? "few/" : "many/", NameOf(s.type), "/", s.rows,
                                              "x", s.columns, "/", s.tokens, "/", NameOf(isa));
    benchmark::RegisterBenchmark(name.c_str(),
                                 [=](benchmark::State& state) { Run(state, s, isa, few); })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  };
  for (const thinwire::Isa isa : thinwire::SupportedIsas()) {
    for (const WeightType type : thinwire::AllWeightTypes()) {
      for (const auto& [rows, columns] :
           {std::pair{576, 576}, {192, 576}, {1536, 576}, {576, 1536}, {49152, 576}, {768, 2048}}) {
        if (columns % thinwire::BlockElements(type) != 0) continue;
        for (const int tokens : {1, 2, 4}) add({type, rows, columns, tokens}, isa, true);
        for (const int tokens : {13, 512}) add({type, rows, columns, tokens}, isa, false);
      }
    }
  }
  for (const WeightType type : thinwire::AllWeightTypes()) {
    benchmark::RegisterBenchmark(thinwire::StrCat("pack/", NameOf(type)).c_str(),
                                 [=](benchmark::State& state) { Pack(state, type); })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
