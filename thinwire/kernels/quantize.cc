#include "thinwire/kernels/quantize.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "thinwire/kernels/quantize_isa.h"

namespace thinwire::kernels {
namespace {

void CheckFormat(const BlockFormat& format) {
  THINWIRE_CHECK(
      format.block >= kBlockUnit && format.block <= kLargestBlock && format.block % kBlockUnit == 0,
      "blocks of ", format.block);
}

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
  const auto sum = THINWIRE_PICK(isa, SumBlocks);
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

}  // namespace

void Quantize(const ExecContext& context, const BlockFormat& format, ScaleChoice choice,
              ConstArray in, MutableBlocks out) {
  CheckFormat(format);
  THINWIRE_PICK(context.isa, Quantize)(format, choice, in, out);
}

void Dequantize(const ExecContext& context, const BlockFormat& format, ConstBlocks in, Array out) {
  CheckFormat(format);
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
  CheckTerms(terms, size);
  const BlockFormat out_format{out_code, format.block};
  std::array<float, kLargestBlock> buffer;
  // As many whole blocks as the buffer, which stays in the first-level cache, has room for.
  const int64_t tile = kLargestBlock / format.block * format.block;
  for (int64_t begin = 0; begin < size; begin += tile) {
    const std::span<float> sum(buffer.data(), static_cast<size_t>(std::min(tile, size - begin)));
    SumRange(context.isa, format, terms, false, begin, sum);
    THINWIRE_PICK(context.isa, Quantize)
    (out_format, ScaleChoice::kExtreme, std::span<const float>(sum),
     {out.codes + out_format.CodeBytes(begin), out.scales + 2 * out_format.Blocks(begin)});
  }
}

}  // namespace thinwire::kernels
