#include "thinwire/kernels/difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "thinwire/kernels/test_inputs.h"

namespace thinwire::kernels {
namespace {

float Canonical(float x) { return std::isnan(x) ? std::bit_cast<float>(0x7fc00000u) : x; }

TEST(Difference, MatchesTheElementRulesForEveryTypeTailAndAddress) {
  for (const Isa isa : SupportedIsas()) {
    for (const DType a_type : kDTypes) {
      for (const DType b_type : kDTypes) {
        for (int64_t size = 0; size <= 100; ++size) {
          const int64_t offset = size % 7;
          const auto a_bytes = Inputs(a_type, size, offset, static_cast<uint64_t>(size));
          auto b_bytes = Inputs(b_type, size, offset, static_cast<uint64_t>(size) + 999);
          const ConstArray a(a_bytes.data() + offset, a_type, size);
          const Array b(b_bytes.data() + offset, b_type, size);
          std::vector<float> out(static_cast<size_t>(size)), expected;
          std::vector<std::byte> sums;
          for (int64_t i = 0; i < size; ++i) {
            expected.push_back(Canonical(ElementAt(a, i) - ElementAt(b, i)));
            const float sum = Canonical(ElementAt(b, i) + ElementAt(a, i));
            std::vector<std::byte> rounded(static_cast<size_t>(SizeOf(b_type)));
            if (b_type == DType::kF32) {
              std::memcpy(rounded.data(), &sum, sizeof(sum));
            } else {
              const uint16_t bits = b_type == DType::kBF16 ? ToBF16(sum).bits : ToFP16(sum).bits;
              std::memcpy(rounded.data(), &bits, sizeof(bits));
            }
            sums.insert(sums.end(), rounded.begin(), rounded.end());
          }
          Subtract({isa}, a, b, out);
          if (size == 0) continue;  // there are no bytes to compare
          ASSERT_EQ(0, std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)))
              << NameOf(isa) << " " << NameOf(a_type) << " - " << NameOf(b_type) << " " << size;
          AddTo({isa}, a, b);
          ASSERT_EQ(0, std::memcmp(b.data, sums.data(), sums.size()))
              << NameOf(isa) << " " << NameOf(a_type) << " to " << NameOf(b_type) << " " << size;
        }
      }
    }
  }
}

TEST(Difference, SquaredDistanceIsTheSameOnEveryInstructionSet) {
  constexpr int64_t kSize = 5000;  // several tiles and a tail
  std::vector<float> a(kSize), b(kSize);
  double expected = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = std::sin(static_cast<float>(i));
    b[i] = std::cos(static_cast<float>(i));
    expected += std::pow(static_cast<double>(a[i] - b[i]), 2);
  }
  const auto array = [](std::vector<float>& x) { return ConstArray(Array(std::span(x))); };
  const double scalar = SquaredDistance({Isa::kScalar}, array(a), array(b));
  EXPECT_NEAR(scalar, expected, 1e-9 * expected);
  for (const Isa isa : SupportedIsas()) {
    EXPECT_EQ(SquaredDistance({isa}, array(a), array(b)), scalar) << NameOf(isa);
  }
}

}  // namespace
}  // namespace thinwire::kernels
