// Kernels of block formats against the memory, as roof_bench.h says: fp32 and bf16 arrays of 64
// MiB, blocks of 128. The roofs leave out the scales, 1.5 to 3 % of the bytes of codes.
//
//   quantize_bench [--quick] [--json] [--only=TEXT]
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/base/random.h"
#include "thinwire/kernels/convert.h"
#include "thinwire/kernels/quantize.h"
#include "thinwire/kernels/roof_bench.h"
#include "thinwire/kernels/rotate.h"

namespace thinwire::kernels {
namespace {

constexpr int64_t kHalves = 2 * kElements;  // bf16 elements of 64 MiB
constexpr size_t kMessages = 4;

// Reads kStreams x kIn vectors and writes kOut ones in turn. Vector code whatever the instruction
// set of the kernel: with scalar loops the memory would not be the limit.
#pragma GCC push_options
#pragma GCC optimize("O3")
#if defined(__x86_64__)
#pragma GCC target("avx2")
#endif

typedef uint64_t Words __attribute__((vector_size(32), aligned(1), may_alias));

template <int kStreams, int kIn, int kOut>
[[gnu::noinline]] void Roof(const std::array<const std::byte*, kMessages>& in, std::byte* out,
                            int64_t out_bytes) {
  Words* to = reinterpret_cast<Words*>(out);
  const Words* from[kMessages];
  for (size_t s = 0; s < kMessages; ++s) from[s] = reinterpret_cast<const Words*>(in[s]);
  for (int64_t step = 0; step < out_bytes / int64_t{sizeof(Words) * kOut}; ++step) {
    Words sum = {};
    for (int s = 0; s < kStreams; ++s) {
      for (int k = 0; k < kIn; ++k) sum ^= from[s][step * kIn + k];
    }
    for (int k = 0; k < kOut; ++k) to[step * kOut + k] = sum;
  }
}

#pragma GCC pop_options

using RoofFunction = void (*)(const std::array<const std::byte*, kMessages>&, std::byte*, int64_t);

// Each number in fp32 and bf16, and four messages of each format with other numbers.
struct Arrays {
  AlignedBuffer fp32{kElements * 4}, bf16{kHalves * 2}, out{kElements * 4};
  std::array<AlignedBuffer, kMessages> codes, scales;
  AlignedBuffer new_codes{kHalves}, new_scales{kHalves / 64};

  Arrays() {
    const CounterRandom random(1);
    const auto x = fp32.As<float>();
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(2 * random.Uniform(i) - 1 + 0.5 * random.Uniform(~i));
    }
    for (const int64_t half : {0, 1}) {
      Convert({}, std::span<const float>(x),
              Array(bf16.data() + half * 2 * kElements, DType::kBF16, kElements));
    }
    for (size_t m = 0; m < kMessages; ++m) {
      codes[m] = AlignedBuffer(kHalves);
      scales[m] = AlignedBuffer(kHalves / 64);
      // Bytes serve as int8 codes as well as as pairs of int4 codes; scales have both signs, all
      // mantissas and are within a factor of eight, as those of one block on several ranks are.
      const auto words = codes[m].As<uint64_t>();
      for (size_t i = 0; i < words.size(); ++i) words[i] = random.Bits(i + m * words.size());
      const auto halves = scales[m].As<uint16_t>();
      for (size_t i = 0; i < halves.size(); ++i) {
        const uint64_t draw = random.Bits(~(i + m * halves.size()));
        halves[i] = static_cast<uint16_t>(0x3c00 + draw % 384 + ((draw >> 32) % 2 << 15));
      }
    }
  }
};

class CaseMaker {
 public:
  CaseMaker(Arrays& arrays, CodeType code)
      : a_(arrays), format_{code, 128}, name_(kNames[static_cast<size_t>(code)]) {}

  Case Encode(DType dtype, ScaleRule rule, RoofFunction roof, std::string_view suffix = "",
              std::optional<Rotation> rotation = std::nullopt) const {
    const ConstArray in = dtype == DType::kF32 ? ConstArray(a_.fp32.data(), dtype, kElements)
                                               : ConstArray(a_.bf16.data(), dtype, kHalves);
    const auto kernel = [*this, in, rule, rotation](const ExecContext& context, Range r) {
      const ConstArray part = in.Sub(r.begin, r.size);
      if (!rotation) return QuantizeBy(context, format_, rule, part, Out(r));
      RotateQuantize(context, *rotation, {}, format_, rule, part, Out(r));
    };
    const auto at_roof = [*this, in, roof](Range r) {
      const std::byte* from = in.Sub(r.begin, r.size).data;
      roof({from}, Out(r).codes, format_.CodeBytes(r.size));
    };
    return {StrCat(NameOf(dtype), " to ", Prefix(rotation), name_, suffix),
            static_cast<double>(SizeOf(dtype)) + CodeBytes(),
            kernel,
            at_roof,
            {a_.new_codes.bytes(), a_.new_scales.bytes()},
            in.size,
            suffix != ", searched"};
  }

  Case Decode(DType dtype, RoofFunction roof,
              std::optional<Rotation> rotation = std::nullopt) const {
    const Array out(a_.out.data(), dtype, dtype == DType::kF32 ? kElements : kHalves);
    const auto kernel = [*this, out, rotation](const ExecContext& context, Range r) {
      const Array part = out.Sub(r.begin, r.size);
      if (!rotation) return Dequantize(context, format_, Message(0, r), part);
      DequantizeRotateBack(context, *rotation, {}, format_, Message(0, r), part);
    };
    const auto at_roof = [*this, out, roof](Range r) {
      const Array part = out.Sub(r.begin, r.size);
      roof({Message(0, r).codes}, part.data, part.bytes());
    };
    return {StrCat(Prefix(rotation), name_, " to ", NameOf(dtype)),
            static_cast<double>(SizeOf(dtype)) + CodeBytes(),
            kernel,
            at_roof,
            {a_.out.bytes()},
            out.size};
  }

  Case Sum(size_t count, RoofFunction roof) const {
    const auto kernel = [*this, count](const ExecContext& context, Range r) {
      const auto terms = Terms(r);
      DequantizeSum(context, format_, std::span(terms).first(count), false,
                    r.Of(a_.out.As<float>()));
    };
    const auto at_roof = [*this, roof](Range r) {
      roof(Codes(r), a_.out.data() + 4 * r.begin, 4 * r.size);
    };
    return {StrCat("sum of ", count, " ", name_),
            static_cast<double>(count) * CodeBytes() + 4,
            kernel,
            at_roof,
            {a_.out.bytes()}};
  }

  Case SumQuantize(size_t count, RoofFunction roof) const {
    const auto kernel = [*this, count](const ExecContext& context, Range r) {
      const auto terms = Terms(r);
      DequantizeSumQuantize(context, format_, std::span(terms).first(count), r.size, format_.code,
                            Out(r));
    };
    const auto at_roof = [*this, roof](Range r) {
      roof(Codes(r), Out(r).codes, format_.CodeBytes(r.size));
    };
    return {StrCat("sum of ", count, " ", name_, " to ", name_),
            static_cast<double>(count + 1) * CodeBytes(),
            kernel,
            at_roof,
            {a_.new_codes.bytes(), a_.new_scales.bytes()},
            kHalves};
  }

 private:
  static constexpr std::array<std::string_view, 4> kNames{"int8", "int4", "int3", "ternary"};
  static std::string Prefix(const std::optional<Rotation>& rotation) {
    return rotation ? StrCat("rot", rotation->width, "+") : "";
  }
  double CodeBytes() const { return static_cast<double>(format_.CodeBytes(160)) / 160; }
  MutableBlocks Out(Range r) const {
    return {a_.new_codes.data() + format_.CodeBytes(r.begin),
            a_.new_scales.data() + 2 * format_.Blocks(r.begin)};
  }
  ConstBlocks Message(size_t m, Range r) const {
    return {a_.codes[m].data() + format_.CodeBytes(r.begin),
            a_.scales[m].data() + 2 * format_.Blocks(r.begin)};
  }
  std::array<BlockTerm, kMessages> Terms(Range r) const {
    return {BlockTerm{Message(0, r), {}},
            {Message(1, r), {}},
            {Message(2, r), {}},
            {Message(3, r), {}}};
  }
  std::array<const std::byte*, kMessages> Codes(Range r) const {
    return {Message(0, r).codes, Message(1, r).codes, Message(2, r).codes, Message(3, r).codes};
  }

  Arrays& a_;
  BlockFormat format_;
  std::string name_;
};

// Rotates fp32, to other memory.
Case RotateCase(Arrays& a, int64_t width) {
  const auto kernel = [&a, width](const ExecContext& context, Range r) {
    Rotate(context, {width, 1}, {}, std::span<const float>(r.Of(a.fp32.As<float>())),
           r.Of(a.out.As<float>()));
  };
  const auto at_roof = [&a](Range r) {
    Roof<1, 1, 1>({a.fp32.data() + 4 * r.begin}, a.out.data() + 4 * r.begin, 4 * r.size);
  };
  return {StrCat("rot", width, ", fp32"), 8, kernel, at_roof, {a.out.bytes()}};
}

std::vector<Case> LowBitsCases(Arrays& arrays) {
  const CaseMaker int8(arrays, CodeType::kInt8), int4(arrays, CodeType::kInt4);
  const CaseMaker int3(arrays, CodeType::kInt3), ternary(arrays, CodeType::kTernary);
  const ScaleRule extreme = ScaleChoice::kExtreme, rms = Clip{Clip::Basis::kRms, 1.22f};
  const Rotation r32{32, 1}, r128{128, 1};
  return {int4.Encode(DType::kF32, kInt4Clip, Roof<1, 8, 1>, ", clipped"),
          int3.Encode(DType::kF32, kInt3Clip, Roof<1, 32, 3>),
          int3.Encode(DType::kBF16, kInt3Clip, Roof<1, 16, 3>),
          ternary.Encode(DType::kF32, kTernaryClip, Roof<1, 20, 1>),
          ternary.Encode(DType::kBF16, kTernaryClip, Roof<1, 10, 1>),
          ternary.Encode(DType::kF32, rms, Roof<1, 20, 1>, ", rms"),
          int3.Decode(DType::kF32, Roof<1, 3, 32>),
          int3.Decode(DType::kBF16, Roof<1, 3, 16>),
          ternary.Decode(DType::kF32, Roof<1, 1, 20>),
          ternary.Decode(DType::kBF16, Roof<1, 1, 10>),
          int3.Sum(4, Roof<4, 3, 32>),
          ternary.Sum(4, Roof<4, 1, 20>),
          RotateCase(arrays, 32),
          RotateCase(arrays, 128),
          int8.Encode(DType::kBF16, extreme, Roof<1, 2, 1>, "", r32),
          int4.Encode(DType::kF32, extreme, Roof<1, 8, 1>, "", r32),
          int4.Encode(DType::kF32, extreme, Roof<1, 8, 1>, "", r128),
          ternary.Encode(DType::kF32, kTernaryClip, Roof<1, 20, 1>, "", r32),
          int4.Decode(DType::kF32, Roof<1, 1, 8>, r32),
          int4.Decode(DType::kF32, Roof<1, 1, 8>, r128)};
}

std::vector<Case> Cases(Arrays& arrays) {
  const CaseMaker int8(arrays, CodeType::kInt8), int4(arrays, CodeType::kInt4);
  std::vector<Case> cases = LowBitsCases(arrays);
  const std::vector<Case> bytes{
      int8.Encode(DType::kF32, ScaleChoice::kExtreme, Roof<1, 4, 1>),
      int8.Encode(DType::kBF16, ScaleChoice::kExtreme, Roof<1, 2, 1>),
      int4.Encode(DType::kF32, ScaleChoice::kExtreme, Roof<1, 8, 1>),
      int4.Encode(DType::kBF16, ScaleChoice::kExtreme, Roof<1, 4, 1>),
      int8.Decode(DType::kF32, Roof<1, 1, 4>),
      int8.Decode(DType::kBF16, Roof<1, 1, 2>),
      int4.Decode(DType::kF32, Roof<1, 1, 8>),
      int4.Decode(DType::kBF16, Roof<1, 1, 4>),
      int8.Sum(2, Roof<2, 1, 4>),
      int8.Sum(4, Roof<4, 1, 4>),
      int4.Sum(2, Roof<2, 1, 8>),
      int4.Sum(4, Roof<4, 1, 8>),
      int8.SumQuantize(4, Roof<4, 1, 1>),
      int4.SumQuantize(4, Roof<4, 1, 1>),
      int8.Encode(DType::kF32, ScaleChoice::kSearched, Roof<1, 4, 1>, ", searched"),
      int4.Encode(DType::kF32, ScaleChoice::kSearched, Roof<1, 8, 1>, ", searched")};
  cases.insert(cases.begin(), bytes.begin(), bytes.end());
  return cases;
}

}  // namespace
}  // namespace thinwire::kernels

int main(int argc, char** argv) {
  using namespace thinwire::kernels;
  const auto arrays = std::make_unique<Arrays>();
  return BenchMain("quantize", argc, argv, [&] { return Cases(*arrays); });
}
