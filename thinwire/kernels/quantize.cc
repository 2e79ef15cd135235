#include "thinwire/kernels/quantize.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "thinwire/kernels/low_bits_isa.h"
#include "thinwire/kernels/quantize_isa.h"

namespace thinwire::kernels {
namespace {

void CheckFormat(const BlockFormat& format) {
  THINWIRE_CHECK(
      format.block >= kBlockUnit && format.block <= kLargestBlock && format.block % kBlockUnit == 0,
      "blocks of ", format.block);
}

bool IsLowBits(CodeType code) { return code == CodeType::kInt3 || code == CodeType::kTernary; }

void CheckTerms(std::span<const BlockTerm> terms, int64_t size) {
  for (const BlockTerm& term : terms) {
    THINWIRE_CHECK(term.own.data == nullptr || term.own.size == size, "a term of ", term.own.size,
                   " elements in a sum of ", size);
  }
}

// out[0, size) = the sum of elements `begin` and up of the terms; out is not empty.
void SumRange(Isa isa, const BlockFormat& format, std::span<const BlockTerm> terms, bool accumulate,
              int64_t begin, std::span<float> out) {
  if (terms.empty() && !accumulate) std::ranges::fill(out, 0.0f);
  const auto sum =
      IsLowBits(format.code) ? THINWIRE_PICK(isa, SumLowBits) : THINWIRE_PICK(isa, SumBlocks);
  while (!terms.empty()) {
    const size_t count = std::min<size_t>(terms.size(), kTermsPerPass);
    sum(format,
        {terms.data(), static_cast<int>(count), accumulate, begin,
         static_cast<int64_t>(out.size())},
        out.data());
    terms = terms.subspan(count);
    accumulate = true;
  }
}

// Elements from `begin`, a multiple of the block, on.
MutableBlocks From(MutableBlocks blocks, const BlockFormat& format, int64_t begin) {
  return {blocks.codes + format.CodeBytes(begin), blocks.scales + 2 * format.Blocks(begin)};
}

}  // namespace

void Quantize(const ExecContext& context, const BlockFormat& format, ScaleChoice choice,
              ConstArray in, MutableBlocks out) {
  CheckFormat(format);
  THINWIRE_CHECK(!IsLowBits(format.code), "codes below four bits without a Clip");
  THINWIRE_PICK(context.isa, Quantize)(format, choice, in, out);
}

void QuantizeClipped(const ExecContext& context, const BlockFormat& format, const Clip& clip,
                     ConstArray in, MutableBlocks out) {
  CheckFormat(format);
  THINWIRE_CHECK(format.code != CodeType::kInt8, "int8 codes with a Clip");
  THINWIRE_CHECK(clip.factor > 0 && clip.factor <= kLargestClip, "a factor of ", clip.factor);
  THINWIRE_PICK(context.isa, QuantizeClipped)(format, clip, in, out);
}

void Dequantize(const ExecContext& context, const BlockFormat& format, ConstBlocks in, Array out) {
  CheckFormat(format);
  if (IsLowBits(format.code)) return THINWIRE_PICK(context.isa, DequantizeLowBits)(format, in, out);
  THINWIRE_PICK(context.isa, Dequantize)(format, in, out);
}

void DequantizeSum(const ExecContext& context, const BlockFormat& format,
                   std::span<const BlockTerm> terms, bool accumulate, std::span<float> out) {
  CheckFormat(format);
  CheckTerms(terms, static_cast<int64_t>(out.size()));
  if (!out.empty()) SumRange(context.isa, format, terms, accumulate, 0, out);
}

void DequantizeSumQuantize(const ExecContext& context, const BlockFormat& format,
                           std::span<const BlockTerm> terms, int64_t size, CodeType out_code,
                           MutableBlocks out) {
  CheckFormat(format);
  THINWIRE_CHECK(!IsLowBits(format.code) && !IsLowBits(out_code), "codes below four bits");
  CheckTerms(terms, size);
  const BlockFormat out_format{out_code, format.block};
  std::array<float, kLargestBlock> buffer;
  const auto general = [&](int64_t begin, int64_t end) {
    // As many whole blocks as the buffer, which stays in the first-level cache, has room for.
    const int64_t tile = kLargestBlock / format.block * format.block;
    for (; begin < end; begin += tile) {
      const std::span<float> sum(buffer.data(), static_cast<size_t>(std::min(tile, end - begin)));
      SumRange(context.isa, format, terms, false, begin, sum);
      THINWIRE_PICK(context.isa, Quantize)
      (out_format, ScaleChoice::kExtreme, std::span<const float>(sum),
       From(out, out_format, begin));
    }
  };
  const bool may_be_fast =
      out_code == format.code && !terms.empty() && terms.size() <= kTermsPerPass &&
      std::ranges::none_of(terms, [](const BlockTerm& t) { return t.own.data != nullptr; });
  int64_t done = 0;  // blocks
  for (int64_t step = 1; may_be_fast && step > 0; done += step) {
    OtherBlocks others;
    const TermPass pass{terms.data(), static_cast<int>(terms.size()), false, done,
                        size / format.block - done};
    step = THINWIRE_PICK(context.isa, SumQuantize)(
        format, pass, From(out, out_format, done * format.block), others);
    for (int i = 0, run = 0; i < others.count; i += run) {
      const int64_t index = others.indices[i];
      for (run = 1; i + run < others.count && others.indices[i + run] == index + run;) ++run;
      general(index * format.block, (index + run) * format.block);
    }
  }
  general(done * format.block, size);
}

}  // namespace thinwire::kernels
