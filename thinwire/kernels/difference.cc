#include "thinwire/kernels/difference.h"

#include <algorithm>
#include <array>
#include <utility>

#include "thinwire/kernels/difference_isa.h"
#include "thinwire/kernels/sum.h"

namespace thinwire::kernels {

void Subtract(const ExecContext& context, ConstArray a, ConstArray b, std::span<float> out) {
  THINWIRE_CHECK(a.size == b.size && std::cmp_equal(out.size(), a.size), a.size, " minus ", b.size,
                 " elements into ", out.size());
  if (a.size == 0) return;
  THINWIRE_PICK(context.isa, Subtract)(a.data, a.dtype, b.data, b.dtype, out.data(), a.size);
}

void AddTo(const ExecContext& context, ConstArray term, Array sum) {
  THINWIRE_CHECK(term.size == sum.size, term.size, " elements added to ", sum.size);
  if (term.size == 0) return;
  THINWIRE_PICK(context.isa, AddTo)(term.data, term.dtype, sum.data, sum.dtype, term.size);
}

double SquaredDistance(const ExecContext& context, ConstArray a, ConstArray b) {
  THINWIRE_CHECK(a.size == b.size, a.size, " minus ", b.size, " elements");
  std::array<float, 1024> buffer;  // 4 KiB, which stay in the first-level cache
  double sum = 0;
  for (int64_t begin = 0; begin < a.size; begin += std::ssize(buffer)) {
    const int64_t size = std::min<int64_t>(std::ssize(buffer), a.size - begin);
    const auto tile = std::span(buffer).first(static_cast<size_t>(size));
    Subtract(context, a.Sub(begin, size), b.Sub(begin, size), tile);
    sum += SumOfSquares(context, tile);
  }
  return sum;
}

}  // namespace thinwire::kernels
