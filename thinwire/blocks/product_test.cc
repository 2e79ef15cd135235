#include "thinwire/blocks/product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/blocks/product_testing.h"

namespace thinwire::blocks {
namespace {

struct Tail {
  int64_t rows;
  int64_t tokens;
  int64_t columns;
};

// Each kind of matrix, tile and last group at least once, all pairs of the first two.
std::vector<Tail> Tails(WeightType type) {
  std::vector<Tail> tails;
  const bool super_blocks = BlockElements(type) == 256;
  for (int64_t tokens = 1; tokens <= 25; ++tokens) {
    tails.push_back({tokens % 3 == 0   ? 17
                     : tokens % 3 == 1 ? 15
                                       : 1,
                     tokens,
                     super_blocks      ? 256
                     : tokens % 2 == 0 ? 32
                                       : 96});
  }
  for (const int64_t columns : {64, 576, 1536}) {
    if (!super_blocks) tails.push_back({33, 13, columns});
  }
  if (super_blocks) tails.push_back({33, 13, 1536});
  return tails;
}

TEST(Product, HoldsItsBoundForEveryTypeIsaAndTail) {
  for (const WeightType type : AllWeightTypes()) {
    for (const Tail& tail : Tails(type)) {
      const TestMatrix matrix(type, tail.rows, tail.columns, 7);
      const TestRows x(tail.tokens, tail.columns, 8);
      const Exact exact = ExactProduct(matrix, x);
      for (const Isa isa : SupportedIsas()) {
        const std::vector<float> out = ProductOf(isa, matrix, x);
        for (size_t i = 0; i < out.size(); ++i) {
          ASSERT_LE(std::abs(static_cast<double>(out[i]) - exact.products[i]), exact.bounds[i])
              << NameOf(type) << " " << NameOf(isa) << " token " << i / size_t(tail.rows) << " of "
              << tail.tokens << ", row " << i % size_t(tail.rows) << " of " << tail.rows << ", "
              << tail.columns << " columns";
        }
      }
    }
  }
}

}  // namespace
}  // namespace thinwire::blocks
