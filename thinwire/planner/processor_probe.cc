#include "thinwire/planner/processor_probe.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/codec/message_coder.h"
#include "thinwire/kernels/difference.h"
#include "thinwire/kernels/rotate.h"
#include "thinwire/kernels/sum.h"
#include "thinwire/optim/native.h"
#include "thinwire/planner/cpu_time.h"

namespace thinwire::planner {
namespace {

constexpr int64_t kElements = 256 << 10;
constexpr int64_t kStreamed = 2 << 20;
constexpr int kRepeats = 3;

template <typename Body>
double BestSeconds(Body&& body) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepeats; ++i) {
    const double begin = ThreadCpuSeconds();
    body();
    best = std::min(best, ThreadCpuSeconds() - begin);
  }
  return best;
}

std::vector<float> NormalValues() {
  std::vector<float> values(kElements);
  const CounterRandom random(1);
  for (size_t i = 0; i < values.size(); ++i) {
    // A few thousand different ones do; to make them takes longer than to code them.
    values[i] = i < 4096 ? static_cast<float>(random.Normal(i)) : values[i - 4096];
  }
  return values;
}

}  // namespace

std::vector<zero::CodecPtr> CodecsOf(std::span<const std::string_view> recipes, DType wire) {
  std::vector<zero::CodecPtr> codecs;
  const auto add = [&](const zero::CodecPtr& codec) {
    if (codec == nullptr) return;
    const bool known = std::ranges::any_of(
        codecs, [&](const zero::CodecPtr& each) { return each->name() == codec->name(); });
    if (!known) codecs.push_back(codec);
  };
  for (const std::string_view name : recipes) {
    const zero::Recipe recipe = zero::MakeRecipe(name, wire);
    for (const zero::CodecPtr& codec : {recipe.slow_gather, recipe.fast_gather, recipe.fast_reduce,
                                        recipe.slow_reduce, recipe.vectors}) {
      add(codec);
    }
  }
  return codecs;
}

CodecSpeed MeasureCodec(const codec::Codec& codec, const ExecContext& context) {
  const std::array<int64_t, 1> runs{kElements};
  const std::vector<float> values = NormalValues();
  std::vector<float> out(kElements);
  AlignedBuffer encoded(codec.EncodedBytes(runs));
  const ConstArray in{std::span(values)};
  const std::array<codec::Term, 2> terms{codec::Term{encoded.bytes(), {}},
                                         codec::Term{encoded.bytes(), {}}};
  const double per = 1.0 / static_cast<double>(kElements);
  CodecSpeed speed{
      .encode_s = per * BestSeconds([&] { codec.Encode(context, in, runs, encoded.bytes()); }),
      .decode_s = per * BestSeconds([&] {
                    codec.Decode(context, encoded.bytes(), runs, Array(std::span(out)));
                  }),
      .sum_s = per / 2 * BestSeconds([&] { codec.DecodeSum(context, terms, runs, false, out); })};
  if (const codec::MessageCoder* const coder = codec.coder()) {
    AlignedBuffer coded(coder->MostBytes(runs));
    speed.encode_s +=
        per * BestSeconds([&] { coder->Code(context, encoded.bytes(), runs, coded.bytes()); });
    const double expand_s =
        per * BestSeconds([&] { coder->Expand(context, coded.bytes(), runs, encoded.bytes()); });
    speed.decode_s += expand_s;
    speed.sum_s += expand_s;
  }
  return speed;
}

void MeasureArithmetic(const ExecContext& context, Machine& machine) {
  // Weights and their states come from memory, not from a cache.
  const std::vector<float> sample = NormalValues();
  std::vector<float> gradient(kStreamed), master(kStreamed), m(kStreamed), v(kStreamed, 1.0f);
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = sample[i % sample.size()];
  const double per = 1.0 / static_cast<double>(kStreamed);
  double sum = 0;
  machine.norm_s = per * BestSeconds([&] { sum += kernels::SumOfSquares(context, gradient); });
  THINWIRE_CHECK(sum > 0);
  machine.copy_s_per_byte = per / sizeof(float) * BestSeconds([&] {
                              std::memcpy(m.data(), gradient.data(), kStreamed * sizeof(float));
                            });
  const codec::Codec& bf16 = codec::Raw(DType::kBF16);
  const std::array<int64_t, 1> runs{kStreamed};
  AlignedBuffer rounded(bf16.EncodedBytes(runs));
  const ConstArray half(rounded.data(), DType::kBF16, kStreamed);
  machine.rotate_s = per * BestSeconds([&] {
                       kernels::Rotate(context, {}, {}, half, m);
                       bf16.Encode(context, std::span<const float>(m), runs, rounded.bytes());
                     });
  machine.difference_s = per * BestSeconds([&] {
                           kernels::Subtract(context, std::span<const float>(master), half, m);
                         });
  const optim::OptimizerPtr adamw = optim::MakeAdamW();
  const std::array<optim::GroupSettings, 1> groups{optim::GroupSettings{.lr = 1e-6f}};
  const std::array<optim::Stretch, 1> stretches{optim::Stretch{
      .gradient = gradient, .master = master, .states = {std::span(m), std::span(v), {}}}};
  machine.optimizer_s =
      per * BestSeconds([&] { adamw->Apply({.exec = context, .groups = groups}, stretches); });
}

uint64_t CoresId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string machine;
  std::getline(file, machine);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof(cores), &cores);
  return HashBytes({reinterpret_cast<const char*>(&cores), sizeof(cores)}, HashBytes(machine));
}

}  // namespace thinwire::planner
