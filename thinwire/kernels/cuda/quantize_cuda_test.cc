// Bit for bit against the CPU. Needs a GPU.
#include <gtest/gtest.h>

#include <vector>

#include "thinwire/kernels/cuda/device_memory.h"
#include "thinwire/kernels/cuda/quantize.h"
#include "thinwire/kernels/quantize_testing.h"

namespace thinwire::kernels {
namespace {

using cuda::DeviceBytes;

std::span<const std::byte> BytesOf(std::span<const float> x) { return std::as_bytes(x); }

// Device copies of codes and scales with the same offset from a multiple of 256 bytes.
struct DeviceBlocks {
  DeviceBytes codes, scales;
  size_t offset;

  explicit DeviceBlocks(const EncodedBlocks& host)
      : codes(host.codes), scales(host.scales), offset(host.offset) {}
  MutableBlocks blocks() const { return {codes.data() + offset, scales.data() + offset}; }
  ::testing::AssertionResult Equal(const EncodedBlocks& wanted) const {
    const auto result = SameBits(scales.ToHost(), wanted.scales);
    return result ? SameBits(codes.ToHost(), wanted.codes) : result;
  }
};

std::vector<int64_t> Sizes() {
  std::vector<int64_t> sizes{4095, 4097, 70'001};
  for (int64_t size = 0; size <= 300; size += size < 40 ? 1 : 7) sizes.push_back(size);
  return sizes;
}

BlockFormat FormatFor(CodeType code, int64_t size) {
  return {code, std::array<int64_t, 5>{32, 96, 128, 1024, 4096}[static_cast<size_t>(size) % 5]};
}

TEST(CudaQuantize, MatchesTheCpu) {
  for (const CodeType code : kCodeTypes) {
    for (const DType dtype : kDTypes) {
      for (const int64_t size : Sizes()) {
        const BlockFormat format = FormatFor(code, size);
        const size_t offset = static_cast<size_t>(size) % 5;
        // Elements start at a multiple of their size, not always of a whole quad.
        const int64_t shift = size % 3 * SizeOf(dtype);
        const BlockInputs in(dtype, size, shift, static_cast<uint64_t>(size));
        const EncodedBlocks wanted = Quantized(Isa::kScalar, format, in.array, offset);
        const DeviceBytes device_in(in.bytes);
        const DeviceBlocks out(EncodedBlocks(format, size, offset));
        cuda::Quantize(nullptr, format, ConstArray(device_in.data() + shift, dtype, size),
                       out.blocks());
        ASSERT_TRUE(out.Equal(wanted)) << NameOf(code) << " " << NameOf(dtype) << " " << size;
      }
    }
  }
}

TEST(CudaDequantize, MatchesTheCpuForAnyBytes) {
  for (const CodeType code : kCodeTypes) {
    for (const DType dtype : kDTypes) {
      for (const int64_t size : Sizes()) {
        const BlockFormat format = FormatFor(code, size);
        EncodedBlocks in(format, size, static_cast<size_t>(size) % 3);
        const CounterRandom random(static_cast<uint64_t>(size));
        uint64_t at = 0;
        for (std::byte& b : in.codes) b = static_cast<std::byte>(random.Bits(at++));
        for (std::byte& b : in.scales) b = static_cast<std::byte>(random.Bits(at++));
        std::vector<std::byte> wanted(static_cast<size_t>(size * SizeOf(dtype)));
        Dequantize({Isa::kScalar}, format, in.blocks(), Array(wanted.data(), dtype, size));
        const DeviceBlocks device_in(in);
        const DeviceBytes out(wanted.size());
        cuda::Dequantize(nullptr, format, device_in.blocks(), Array(out.data(), dtype, size));
        ASSERT_TRUE(SameBits(out.ToHost(), wanted))
            << NameOf(code) << " " << NameOf(dtype) << " " << size;
      }
    }
  }
}

// The same terms on both sides; every third is an array as it is.
struct Terms {
  std::vector<BlockInputs> inputs;
  std::vector<EncodedBlocks> encoded;
  std::vector<DeviceBytes> device_inputs;
  std::vector<DeviceBlocks> device_encoded;
  std::vector<BlockTerm> host, device;

  Terms(const BlockFormat& format, size_t count, int64_t size) {
    inputs.reserve(count);
    encoded.reserve(count);
    for (size_t t = 0; t < count; ++t) {
      const DType dtype = kDTypes[t % 3];
      inputs.emplace_back(dtype, size, 0, t + static_cast<uint64_t>(size));
      encoded.push_back(Quantized(Isa::kScalar, format, inputs[t].array, t % 4));
      device_inputs.emplace_back(inputs[t].bytes);
      device_encoded.emplace_back(encoded[t]);
      if (t % 3 == 1) {
        host.push_back({{}, inputs[t].array});
        device.push_back({{}, ConstArray(device_inputs[t].data(), dtype, size)});
      } else {
        host.push_back({std::as_const(encoded[t]).blocks(), {}});
        device.push_back({device_encoded[t].blocks(), {}});
      }
    }
  }
};

TEST(CudaDequantizeSum, MatchesTheCpu) {
  for (const CodeType code : kCodeTypes) {
    for (const int64_t size : {1, 33, 130, 4097, 20'000}) {
      for (const size_t count : {0u, 1u, 2u, 4u, 16u, 17u, 40u}) {
        const BlockFormat format = FormatFor(code, size);
        const Terms terms(format, count, size);
        for (const bool accumulate : {false, true}) {
          std::vector<float> wanted = Floats(size, 3);
          const DeviceBytes out(BytesOf(wanted));
          cuda::DequantizeSum(nullptr, format, terms.device, accumulate,
                              {reinterpret_cast<float*>(out.data()), wanted.size()});
          DequantizeSum({Isa::kScalar}, format, terms.host, accumulate, wanted);
          const auto bytes = BytesOf(wanted);
          ASSERT_TRUE(SameBits(std::span<const std::byte>(out.ToHost()), bytes))
              << NameOf(code) << " " << size << " " << count;
        }
      }
    }
  }
}

TEST(CudaDequantizeSumQuantize, MatchesTheCpu) {
  for (const CodeType code : kCodeTypes) {
    for (const CodeType out_code : kCodeTypes) {
      for (const int64_t size : {1, 33, 130, 4097, 20'000}) {
        for (const size_t count : {1u, 2u, 4u, 16u}) {
          const BlockFormat format = FormatFor(code, size);
          const Terms terms(format, count, size);
          EncodedBlocks wanted({out_code, format.block}, size, 1);
          const DeviceBlocks out(wanted);
          cuda::DequantizeSumQuantize(nullptr, format, terms.device, size, out_code, out.blocks());
          DequantizeSumQuantize({Isa::kScalar}, format, terms.host, size, out_code,
                                wanted.blocks());
          ASSERT_TRUE(out.Equal(wanted)) << NameOf(code) << " " << size << " " << count;
        }
      }
    }
  }
}

}  // namespace
}  // namespace thinwire::kernels
