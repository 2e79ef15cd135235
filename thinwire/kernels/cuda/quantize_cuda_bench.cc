// Block kernels on a GPU beside a device-to-device copy of as many bytes (half read, half written):
// 512 MiB of elements, blocks of 128, the median of 20 runs by events. A table and one JSON line.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "thinwire/kernels/cuda/device_memory.h"
#include "thinwire/kernels/cuda/quantize.h"

namespace thinwire::kernels::cuda {
namespace {

constexpr int64_t kBytes = int64_t{512} << 20;
constexpr double kBar = 0.85;
constexpr size_t kMessages = 4;

double MedianSeconds(const std::function<void()>& call) {
  cudaEvent_t start, stop;
  Check(cudaEventCreate(&start));
  Check(cudaEventCreate(&stop));
  std::vector<float> milliseconds(20);
  call();
  for (float& time : milliseconds) {
    Check(cudaEventRecord(start));
    call();
    Check(cudaEventRecord(stop));
    Check(cudaEventSynchronize(stop));
    Check(cudaEventElapsedTime(&time, start, stop));
  }
  Check(cudaEventDestroy(start));
  Check(cudaEventDestroy(stop));
  std::nth_element(milliseconds.begin(), milliseconds.begin() + 10, milliseconds.end());
  return static_cast<double>(milliseconds[10]) * 1e-3;
}

class Bench {
 public:
  Bench() {
    Check(cudaMemset(elements_.data(), 0x3c, kBytes));
    Check(cudaMemset(messages_.data(), 0x3c, kBytes * 2));
  }

  void Run(const std::string& name, int64_t bytes, const std::function<void()>& call) {
    const double seconds = MedianSeconds(call);
    const double copy = MedianSeconds([&] {
      Check(cudaMemcpyAsync(out_.data(), messages_.data(), static_cast<size_t>(bytes / 2),
                            cudaMemcpyDeviceToDevice, nullptr));
    });
    std::printf("%-28s %7.0f GB/s  %5.2f of a copy\n", name.c_str(),
                static_cast<double>(bytes) / seconds / 1e9, copy / seconds);
    bars_.push_back({{"name", name},
                     {"value", copy / seconds},
                     {"bar", kBar},
                     {"holds", copy / seconds >= kBar},
                     {"gigabytes_per_second", static_cast<double>(bytes) / seconds / 1e9}});
  }

  void RunFormat(CodeType code, const std::string& name) {
    const BlockFormat format{code, 128};
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const int64_t size = kBytes / SizeOf(dtype);
      const int64_t bytes = kBytes + format.CodeBytes(size) + 2 * format.Blocks(size);
      const ConstArray in(elements_.data(), dtype, size);
      Run(std::string(thinwire::NameOf(dtype)) + " to " + name, bytes,
          [&] { Quantize(nullptr, format, in, Out(format, size)); });
      Run(name + " to " + std::string(thinwire::NameOf(dtype)), bytes, [&] {
        Dequantize(nullptr, format, Message(format, size, 0), Array(out_.data(), dtype, size));
      });
    }
    const int64_t size = kBytes / 4;
    const int64_t message = format.CodeBytes(size) + 2 * format.Blocks(size);
    std::vector<BlockTerm> terms;
    for (size_t m = 0; m < kMessages; ++m) terms.push_back({Message(format, size, m), {}});
    Run("sum of 4 " + name, 4 * message + kBytes, [&] {
      DequantizeSum(nullptr, format, terms, false,
                    {reinterpret_cast<float*>(out_.data()), static_cast<size_t>(size)});
    });
    Run("sum of 4 " + name + " to " + name, 5 * message,
        [&] { DequantizeSumQuantize(nullptr, format, terms, size, code, Out(format, size)); });
  }

  void Print() const {
    cudaDeviceProp properties;
    Check(cudaGetDeviceProperties(&properties, 0));
    const nlohmann::ordered_json line{
        {"bench", "quantize_cuda"}, {"machine", properties.name}, {"bars", bars_}};
    std::printf("%s\n", line.dump().c_str());
  }

 private:
  MutableBlocks Out(const BlockFormat& format, int64_t size) const {
    return {out_.data(), out_.data() + format.CodeBytes(size)};
  }
  ConstBlocks Message(const BlockFormat& format, int64_t size, size_t m) const {
    const int64_t bytes = format.CodeBytes(size) + 2 * format.Blocks(size);
    const std::byte* data = messages_.data() + static_cast<int64_t>(m) * bytes;
    return {data, data + format.CodeBytes(size)};
  }

  DeviceBytes elements_{kBytes}, messages_{2 * kBytes}, out_{2 * kBytes};
  nlohmann::ordered_json bars_ = nlohmann::ordered_json::array();
};

}  // namespace
}  // namespace thinwire::kernels::cuda

int main() {
  using namespace thinwire::kernels;
  cuda::Bench bench;
  bench.RunFormat(CodeType::kInt8, "int8");
  bench.RunFormat(CodeType::kInt4, "int4");
  bench.Print();
  return 0;
}
