#include "thinwire/kernels/sum.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "thinwire/kernels/convert.h"
#include "thinwire/kernels/sum_isa.h"

namespace thinwire::kernels {
namespace {

// More terms than one loop adds meet in a tile of the sum that stays in the first-level cache: 1
// KiB of at least 32. Larger ones were slower: the prefetcher loses the terms that wait for their
// turn.
constexpr int64_t kTile = 256;

// How many terms from the first on one loop can add: those of one dtype.
size_t Addends(std::span<const ConstArray> terms) {
  const size_t most = std::min<size_t>(terms.size(), kMaxAddends);
  size_t count = 1;
  while (count < most && terms[count].dtype == terms[0].dtype) ++count;
  return count;
}

// out = first + terms[0] + ..., for the elements from `begin` on that `out` stands for. `first` may
// be `out`.
void AddTile(Isa isa, ConstArray first, std::span<const ConstArray> terms, int64_t begin,
             Array out) {
  const auto add = THINWIRE_PICK(isa, Add);
  while (!terms.empty()) {
    const size_t count = Addends(terms);
    std::array<const std::byte*, kMaxAddends> addends{};
    for (size_t t = 0; t < count; ++t) addends[t] = terms[t].Sub(begin, out.size).data;
    add(first.data, first.dtype, addends.data(), static_cast<int>(count), terms[0].dtype, out.data,
        out.size);
    terms = terms.subspan(count);
    first = out;
  }
}

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

  for (int64_t begin = 0; begin < size; begin += kTile) {
    const Array tile = sum.Sub(begin, std::min(kTile, size - begin));
    const ConstArray first = accumulate ? ConstArray(tile) : terms[0].Sub(begin, tile.size);
    AddTile(context.isa, first, terms.subspan(accumulate ? 0 : 1), begin, tile);
  }
}

void Divide(const ExecContext& context, std::span<float> x, float divisor) {
  THINWIRE_PICK(context.isa, Divide)(x.data(), divisor, static_cast<int64_t>(x.size()));
}

double SumOfSquares(const ExecContext& context, std::span<const float> x) {
  return THINWIRE_PICK(context.isa, SumOfSquares)(x.data(), static_cast<int64_t>(x.size()));
}

}  // namespace thinwire::kernels
