// The entropy coder on codes of normally distributed elements in blocks of 128: GB/s of packed
// bytes, and bits per code. Verified before it is timed.
//
//   kernels_entropy_bench [--benchmark_filter=int4.*]
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "thinwire/base/random.h"
#include "thinwire/kernels/entropy.h"
#include "thinwire/kernels/low_bits.h"

namespace thinwire::kernels {
namespace {

constexpr int64_t kElements = 4'000'000;

struct Input {
  SymbolModel model;
  std::vector<std::byte> plain, code;

  Input(SymbolModel symbols, CodeType type, const Clip& clip) : model(symbols) {
    const BlockFormat format{type, 128};
    std::vector<float> values(static_cast<size_t>(kElements));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(CounterRandom(1).Normal(i));
    }
    plain.resize(static_cast<size_t>(format.CodeBytes(kElements)));
    std::vector<std::byte> scales(static_cast<size_t>(2 * format.Blocks(kElements)));
    const MutableBlocks out{plain.data(), scales.data()};
    if (type == CodeType::kInt8) {
      Quantize({}, format, ScaleChoice::kExtreme, std::span<const float>(values), out);
    } else {
      QuantizeClipped({}, format, clip, std::span<const float>(values), out);
    }
    code.resize(static_cast<size_t>(MostCompressedBytes(std::ssize(plain))));
    code.resize(static_cast<size_t>(Compress({}, model, plain, code)));
    std::vector<std::byte> back(plain.size());
    THINWIRE_CHECK(Expand({}, model, code, back) == std::ssize(code) && back == plain);
  }
};

void Report(benchmark::State& state, const Input& input) {
  state.SetBytesProcessed(state.iterations() * std::ssize(input.plain));
  state.counters["bits/code"] =
      8.0 * static_cast<double>(input.code.size()) / static_cast<double>(kElements);
}

void TimeCompress(benchmark::State& state, Isa isa, const Input& input) {
  std::vector<std::byte> out(static_cast<size_t>(MostCompressedBytes(std::ssize(input.plain))));
  for (auto _ : state) benchmark::DoNotOptimize(Compress({isa}, input.model, input.plain, out));
  Report(state, input);
}

void TimeExpand(benchmark::State& state, Isa isa, const Input& input) {
  std::vector<std::byte> out(input.plain.size());
  for (auto _ : state) benchmark::DoNotOptimize(Expand({isa}, input.model, input.code, out));
  Report(state, input);
}

}  // namespace
}  // namespace thinwire::kernels

int main(int argc, char** argv) {
  using namespace thinwire::kernels;  // NOLINT: a main
  const std::vector<std::pair<std::string, Input>> inputs = {
      {"int8", {SymbolModel::kInt8, CodeType::kInt8, {}}},
      {"int4", {SymbolModel::kInt4, CodeType::kInt4, kInt4Clip}},
      {"int3", {SymbolModel::kInt3, CodeType::kInt3, kInt3Clip}},
      {"ternary", {SymbolModel::kTernary, CodeType::kTernary, kTernaryClip}}};
  for (const auto& [name, input] : inputs) {
    for (const thinwire::Isa isa : thinwire::SupportedIsas()) {
      const std::string suffix = "/" + std::string(NameOf(isa));
      benchmark::RegisterBenchmark((name + "/compress" + suffix).c_str(), TimeCompress, isa, input);
      benchmark::RegisterBenchmark((name + "/expand" + suffix).c_str(), TimeExpand, isa, input);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
