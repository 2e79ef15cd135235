#include "thinwire/kernels/sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "thinwire/kernels/test_inputs.h"

namespace thinwire::kernels {
namespace {

std::vector<float> Reference(std::span<const ConstArray> terms, bool accumulate,
                             std::vector<float> sum) {
  for (size_t i = 0; i < sum.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    for (size_t t = 0; t < terms.size(); ++t) {
      const float term = ElementAt(terms[t], at);
      sum[i] = t == 0 && !accumulate ? term : WithoutPayload(sum[i] + term);
    }
    if (terms.empty() && !accumulate) sum[i] = 0;
  }
  return sum;
}

// Terms at addresses that differ, 1 to 5 after each other of one dtype.
struct Terms {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<ConstArray> arrays;

  Terms(size_t count, int64_t size, size_t first_dtype) {
    const size_t same = 1 + static_cast<size_t>(size) % 5;
    for (size_t t = 0; t < count; ++t) {
      const DType dtype = kDTypes[(first_dtype + t / same) % kDTypes.size()];
      const int64_t offset = static_cast<int64_t>(t) + size % 3;
      bytes.push_back(Inputs(dtype, size, offset, 100 * t + static_cast<uint64_t>(size)));
      arrays.emplace_back(bytes.back().data() + offset, dtype, size);
    }
  }
};

void ExpectReference(size_t count, int64_t size, size_t first_dtype) {
  const Terms terms(count, size, first_dtype);
  for (const bool accumulate : {false, true}) {
    const std::vector<float> before = Floats(size, 7);
    const std::vector<float> wanted = Reference(terms.arrays, accumulate, before);
    for (const Isa isa : SupportedIsas()) {
      std::vector<float> found(static_cast<size_t>(size) + 1, 0.5f);  // starts off a vector's edge
      std::copy(before.begin(), before.end(), found.begin() + 1);
      SumInOrder({isa}, terms.arrays, accumulate, std::span(found).subspan(1));
      EXPECT_EQ(found.front(), 0.5f);
      found.erase(found.begin());
      ASSERT_TRUE(SameBits(found, wanted)) << NameOf(isa) << " " << count << " terms of " << size
                                           << (accumulate ? ", accumulated" : "");
    }
  }
}

TEST(SumInOrder, MatchesTheScalarLoopForEveryTail) {
  for (int64_t size = 0; size <= 200; ++size) {
    for (size_t count = 0; count <= 8; ++count) {
      ExpectReference(count, size, static_cast<size_t>(size) % kDTypes.size());
    }
  }
}

TEST(SumInOrder, ManyTermsAndTiles) {
  ExpectReference(300, 61, 0);
  for (const int64_t size : {255, 256, 257, 3 * 256 + 5}) ExpectReference(9, size, 1);
}

TEST(SumInOrder, OrderMatters) {
  const std::vector<float> a{1e8f}, b{-1e8f}, c{1.0f};
  std::vector<float> out{0};
  const auto sum = [&](auto&... vectors) {
    const ConstArray terms[] = {std::span<const float>(vectors)...};
    SumInOrder({}, terms, false, out);
    return out[0];
  };
  EXPECT_EQ(sum(a, b, c), 1.0f);
  EXPECT_EQ(sum(a, c, b), 0.0f);
}

TEST(SumInOrder, TheFirstTermIsACopy) {
  const std::vector<uint32_t> bits{0x80000000u, 0x7f812345u};
  const ConstArray term(reinterpret_cast<const std::byte*>(bits.data()), DType::kF32, 2);
  for (const Isa isa : SupportedIsas()) {
    std::vector<float> out(2, 1.0f);
    SumInOrder({isa}, std::span(&term, 1), false, out);
    EXPECT_EQ(std::memcmp(out.data(), bits.data(), 8), 0);
  }
}

TEST(SumInOrder, RefusesSizesThatDiffer) {
  const std::vector<float> term(3);
  const ConstArray terms[] = {std::span<const float>(term)};
  std::vector<float> out(4);
  EXPECT_THROW(SumInOrder({}, terms, true, out), InternalError);
}

TEST(Divide, MatchesTheScalarLoop) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float divisor : {1.0f, 3.0f, 8.0f, -0.1f, 1e-40f, 0.0f, inf, std::nanf("5")}) {
    for (int64_t size = 0; size <= 200; ++size) {
      const std::vector<float> in = Floats(size + 1, static_cast<uint64_t>(size));
      std::vector<float> wanted = in;
      for (size_t i = 1; i < wanted.size(); ++i) wanted[i] = WithoutPayload(wanted[i] / divisor);
      for (const Isa isa : SupportedIsas()) {
        std::vector<float> found = in;
        Divide({isa}, std::span(found).subspan(1), divisor);
        ASSERT_TRUE(SameBits(found, wanted)) << NameOf(isa) << " by " << divisor;
      }
    }
  }
}

double ReferenceSquares(std::span<const float> x) {
  double lanes[16] = {};
  for (size_t i = 0; i < x.size(); ++i) {
    lanes[i % 16] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  for (const size_t half : {8u, 4u, 2u, 1u}) {
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

TEST(SumOfSquares, MatchesTheDocumentedOrderForEveryTail) {
  const CounterRandom random(3);
  std::vector<float> x(4096 + 204);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.Normal(i));
  for (const Isa isa : SupportedIsas()) {
    for (size_t size = 0; size <= 200; ++size) {
      for (const size_t more : {size_t{0}, size_t{4096}}) {
        const auto part = std::span<const float>(x).subspan(size % 4, size + more);
        EXPECT_EQ(SumOfSquares({isa}, part), ReferenceSquares(part)) << NameOf(isa) << " " << size;
      }
    }
  }
}

TEST(SumOfSquares, KeepsWhatIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const Isa isa : SupportedIsas()) {
    for (size_t at = 0; at < 40; ++at) {
      std::vector<float> x(40, 1.0f);
      x[at] = -inf;
      EXPECT_EQ(SumOfSquares({isa}, x), inf);
      x[(at + 1) % 40] = std::nanf("");
      EXPECT_TRUE(std::isnan(SumOfSquares({isa}, x)));
    }
    // Too large for fp32, not for fp64; subnormals too small for fp32 when squared.
    EXPECT_EQ(SumOfSquares({isa}, std::vector<float>(2, 0x1p127f)), 0x1p255);
    EXPECT_EQ(SumOfSquares({isa}, std::vector<float>(2, 0x1p-149f)), 0x1p-297);
    EXPECT_EQ(SumOfSquares({isa}, {}), 0.0);
  }
}

}  // namespace
}  // namespace thinwire::kernels
