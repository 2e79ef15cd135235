// Memory of a fixed size, zeroed, aligned to 64 bytes (a cache line, a full AVX-512 vector).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "thinwire/base/dtype.h"

namespace thinwire {

constexpr int64_t kAlignment = 64;

constexpr int64_t AlignUp(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(int64_t bytes) : size_(bytes) {
    THINWIRE_CHECK(bytes >= 0 && bytes <= INT64_MAX - kAlignment, bytes);
    if (bytes == 0) return;
    const size_t rounded = static_cast<size_t>(AlignUp(bytes));
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    if (!data_) throw std::bad_alloc();
    std::memset(data_.get(), 0, rounded);
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  std::byte* data() const { return data_.get(); }
  int64_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_.get(), static_cast<size_t>(size_)}; }
  template <typename T>
  std::span<T> As() const {
    return {reinterpret_cast<T*>(data_.get()), static_cast<size_t>(size_) / sizeof(T)};
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  int64_t size_ = 0;
};

}  // namespace thinwire
