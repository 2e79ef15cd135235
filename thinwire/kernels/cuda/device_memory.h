// For tests and benchmarks: device memory, and the check of every CUDA call.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

#include "thinwire/base/error.h"

namespace thinwire::kernels::cuda {

inline void Check(cudaError_t error) {
  THINWIRE_CHECK(error == cudaSuccess, cudaGetErrorString(error));
}

class DeviceBytes {
 public:
  explicit DeviceBytes(size_t size) : size_(size) {
    Check(cudaMalloc(reinterpret_cast<void**>(&data_), size + 1));
  }
  explicit DeviceBytes(std::span<const std::byte> bytes) : DeviceBytes(bytes.size()) {
    Check(cudaMemcpy(data_, bytes.data(), size_, cudaMemcpyHostToDevice));
  }
  DeviceBytes(DeviceBytes&& other) noexcept : data_(other.data_), size_(other.size_) {
    other.data_ = nullptr;
  }
  DeviceBytes& operator=(DeviceBytes&&) = delete;
  ~DeviceBytes() { cudaFree(data_); }

  std::byte* data() const { return data_; }
  std::vector<std::byte> ToHost() const {
    std::vector<std::byte> bytes(size_);
    Check(cudaMemcpy(bytes.data(), data_, size_, cudaMemcpyDeviceToHost));
    return bytes;
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_;
};

}  // namespace thinwire::kernels::cuda
