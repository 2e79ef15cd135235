// Memory that is laid out once, as a list of arrays, and then taken in one piece.
//
//   MemoryPlan plan;
//   std::span<float> hidden;                             empty until then
//   plan.Add("hidden states", tokens * columns, hidden);  so many floats
//   const PlannedMemory memory = plan.Take();   // `hidden` lies in it from here on
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/base/checked.h"

namespace thinwire {

// Zeroed when it is first touched, and only then in this process's memory; in huge pages where the
// system has them. Freed with the object; moves keep the addresses.
class PlannedMemory {
 public:
  PlannedMemory() = default;
  // Throws std::bad_alloc.
  explicit PlannedMemory(int64_t bytes);
  ~PlannedMemory();
  PlannedMemory(PlannedMemory&& other) noexcept;
  PlannedMemory& operator=(PlannedMemory&& other) noexcept;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

class MemoryPlan {
 public:
  // `count` elements of T, aligned to 64 bytes. `array` is written by Take and must live until
  // then. Throws UsageError naming `what` where sizes do not fit 64 bits.
  template <typename T>
  void Add(std::string_view what, int64_t count, std::span<T>& array) {
    static_assert(std::is_trivially_copyable_v<T>);
    const int64_t at = Reserve(what, CheckedMul(count, int64_t{sizeof(T)}, what));
    binds_.push_back([&array, at, count](std::byte* base) {
      array = {reinterpret_cast<T*>(base + at), static_cast<size_t>(count)};
    });
  }

  int64_t bytes() const { return bytes_; }
  // (what, bytes), in the order of Add; equal names that follow one another are one.
  struct Part {
    std::string what;
    int64_t bytes = 0;
  };
  const std::vector<Part>& parts() const { return parts_; }

  // Once.
  PlannedMemory Take();

 private:
  int64_t Reserve(std::string_view what, int64_t bytes);

  int64_t bytes_ = 0;
  std::vector<Part> parts_;
  std::vector<std::function<void(std::byte*)>> binds_;
};

}  // namespace thinwire
