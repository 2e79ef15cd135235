#include "thinwire/kernels/convert.h"

#include <gtest/gtest.h>

#include <vector>

#include "thinwire/kernels/test_inputs.h"

namespace thinwire::kernels {
namespace {

std::vector<std::byte> Reference(ConstArray in, DType out_dtype) {
  std::vector<std::byte> out(static_cast<size_t>(in.size * SizeOf(out_dtype)));
  for (int64_t i = 0; i < in.size; ++i) {
    std::byte* at = out.data() + i * SizeOf(out_dtype);
    const float value = ElementAt(in, i);
    const BF16 bf16 = ToBF16(value);
    const FP16 fp16 = ToFP16(value);
    if (in.dtype == out_dtype) {
      std::memcpy(at, in.data + i * SizeOf(out_dtype), static_cast<size_t>(SizeOf(out_dtype)));
    } else if (out_dtype == DType::kF32) {
      std::memcpy(at, &value, sizeof(value));
    } else if (out_dtype == DType::kBF16) {
      std::memcpy(at, &bf16, sizeof(bf16));
    } else {
      std::memcpy(at, &fp16, sizeof(fp16));
    }
  }
  return out;
}

// Converts into a buffer with guards before and after, which must stay.
std::vector<std::byte> Converted(Isa isa, ConstArray in, DType out_dtype, int64_t offset) {
  constexpr int64_t kGuard = 64;
  const int64_t bytes = in.size * SizeOf(out_dtype);
  const int64_t begin = kGuard + offset;
  std::vector<std::byte> buffer(static_cast<size_t>(begin + bytes + kGuard), std::byte{0xa5});
  Convert({isa}, in, Array(buffer.data() + begin, out_dtype, in.size));
  const auto first = buffer.begin() + begin;
  const auto is_guard = [](std::byte b) { return b == std::byte{0xa5}; };
  EXPECT_TRUE(std::all_of(buffer.begin(), first, is_guard));
  EXPECT_TRUE(std::all_of(first + bytes, buffer.end(), is_guard));
  return {first, first + bytes};
}

TEST(Convert, MatchesTheElementRulesForEveryTailAndAddress) {
  for (const Isa isa : SupportedIsas()) {
    for (const DType from : kDTypes) {
      for (const DType to : kDTypes) {
        for (int64_t size = 0; size <= 200; ++size) {
          const int64_t offset = size % 7;
          const auto bytes = Inputs(from, size, offset, static_cast<uint64_t>(size));
          const ConstArray in(bytes.data() + offset, from, size);
          ASSERT_TRUE(SameBits(Converted(isa, in, to, (size / 7) % 5), Reference(in, to)))
              << NameOf(isa) << " " << NameOf(from) << " to " << NameOf(to) << " size " << size;
        }
      }
    }
  }
}

TEST(Convert, EveryHalf) {
  std::vector<uint16_t> every(65536);
  for (size_t i = 0; i < every.size(); ++i) every[i] = static_cast<uint16_t>(i);
  for (const Isa isa : SupportedIsas()) {
    for (const DType from : {DType::kBF16, DType::kF16}) {
      const ConstArray in(reinterpret_cast<const std::byte*>(every.data()), from, 65536);
      for (const DType to : kDTypes) {
        EXPECT_TRUE(SameBits(Converted(isa, in, to, 0), Reference(in, to)))
            << NameOf(isa) << " " << NameOf(from) << " to " << NameOf(to);
      }
    }
  }
}

TEST(Convert, RandomFloats) {
  constexpr int64_t kSize = 1 << 20;
  const auto bytes = Inputs(DType::kF32, kSize, 0, 1);
  const ConstArray in(bytes.data(), DType::kF32, kSize);
  for (const DType to : {DType::kBF16, DType::kF16}) {
    const auto wanted = Reference(in, to);
    for (const Isa isa : SupportedIsas()) {
      EXPECT_TRUE(SameBits(Converted(isa, in, to, 0), wanted)) << NameOf(isa) << " " << NameOf(to);
    }
  }
}

TEST(Convert, RefusesSizesThatDiffer) {
  const std::vector<float> in(3);
  std::vector<float> out(4);
  EXPECT_THROW(Convert({}, std::span<const float>(in), std::span<float>(out)), InternalError);
}

}  // namespace
}  // namespace thinwire::kernels
