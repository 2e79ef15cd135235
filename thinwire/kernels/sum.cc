#include "thinwire/kernels/sum.h"

#include <algorithm>
#include <cstring>

#include "thinwire/kernels/convert.h"
#include "thinwire/kernels/sum_isa.h"

namespace thinwire::kernels {
namespace {

// Terms are added one after the other to a tile of the sum that stays in the first-level cache:
// 16 KiB of at least 32.
constexpr int64_t kTile = 4096;

}  // namespace

void SumInOrder(const ExecContext& context, std::span<const ConstArray> terms, bool accumulate,
                std::span<float> out) {
  const int64_t size = static_cast<int64_t>(out.size());
  for (const ConstArray& term : terms) {
    THINWIRE_CHECK(term.size == size, "a term of ", term.size, " elements in a sum of ", size);
  }
  const Array sum = out;
  if (terms.empty()) {
    if (!accumulate && size > 0) std::memset(sum.data, 0, static_cast<size_t>(sum.bytes()));
    return;
  }
  if (terms.size() == 1 && !accumulate) return Convert(context, terms[0], sum);

  const auto add = THINWIRE_PICK(context.isa, Add);
  for (int64_t begin = 0; begin < size; begin += kTile) {
    const int64_t count = std::min(kTile, size - begin);
    const Array tile = sum.Sub(begin, count);
    const auto add_to_tile = [&](ConstArray a, ConstArray b) {
      add(a.data, a.dtype, b.data, b.dtype, tile.data, count);
    };
    size_t next = 0;
    if (!accumulate) {
      add_to_tile(terms[0].Sub(begin, count), terms[1].Sub(begin, count));
      next = 2;
    }
    for (; next < terms.size(); ++next) add_to_tile(tile, terms[next].Sub(begin, count));
  }
}

void Divide(const ExecContext& context, std::span<float> x, float divisor) {
  THINWIRE_PICK(context.isa, Divide)(x.data(), divisor, static_cast<int64_t>(x.size()));
}

double SumOfSquares(const ExecContext& context, std::span<const float> x) {
  return THINWIRE_PICK(context.isa, SumOfSquares)(x.data(), static_cast<int64_t>(x.size()));
}

}  // namespace thinwire::kernels
