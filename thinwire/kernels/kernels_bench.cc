// Kernels but those of block formats (quantize_bench.cc) against the memory, as roof_bench.h says:
// on fp32 arrays of 64 MiB and halves of 32 MiB.
//
//   kernels_bench [--quick] [--json] [--only=TEXT]
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/base/random.h"
#include "thinwire/kernels/adamw.h"
#include "thinwire/kernels/convert.h"
#include "thinwire/kernels/roof_bench.h"
#include "thinwire/kernels/sum.h"

namespace thinwire::kernels {
namespace {

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

}  // namespace
}  // namespace thinwire::kernels

int main(int argc, char** argv) {
  using namespace thinwire::kernels;
  const volatile uint32_t zero = 0;
  const auto arrays = std::make_unique<Arrays>();
  return BenchMain("kernels", argc, argv, [&] { return Cases(*arrays, zero); });
}
