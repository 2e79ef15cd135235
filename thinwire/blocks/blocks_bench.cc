// Weights per second, encoded and decoded by one thread, of every type on every instruction set.
// Encoding is checked against the error that the types promise before it is timed.
//
//   blocks_blocks_bench --benchmark_filter='encode/.*/avx512'
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/blocks/decode.h"
#include "thinwire/blocks/encode.h"
#include "thinwire/blocks/encode_testing.h"

namespace thinwire::blocks {
namespace {

constexpr int64_t kColumns = 1024;
constexpr int64_t kElements = 256 * kColumns;  // blocks and values stay in the second cache

void Run(benchmark::State& state, WeightType type, Isa isa, bool encode) {
  std::vector<float> values = SampleRows(Rows::kNormal, kElements);
  std::vector<std::byte> blocks(static_cast<size_t>(WeightBytes(type, kElements, "bench")));
  const EncodeRows rows = {values, kColumns};
  Encode({isa}, type, rows, blocks);
  std::vector<float> decoded(values.size());
  Decode({isa}, type, blocks, decoded);
  THINWIRE_CHECK(RelativeError(values, decoded) < 0.28, NameOf(type));
  for (auto unused : state) {
    static_cast<void>(unused);
    if (encode) {
      Encode({isa}, type, rows, blocks);
    } else {
      Decode({isa}, type, blocks, decoded);
    }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kElements);
  // Read and written.
  state.SetBytesProcessed(state.iterations() *
                          (4 * kElements + WeightBytes(type, kElements, "bench")));
}

}  // namespace
}  // namespace thinwire::blocks

int main(int argc, char** argv) {
  using namespace thinwire;
  for (const bool encode : {true, false}) {
    for (const WeightType type : AllWeightTypes()) {
      for (const Isa isa : SupportedIsas()) {
        const std::string name =
            StrCat(encode ? "encode/" : "decode/", NameOf(type), '/', NameOf(isa));
        benchmark::RegisterBenchmark(
            name.c_str(), [=](benchmark::State& state) { blocks::Run(state, type, isa, encode); });
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
