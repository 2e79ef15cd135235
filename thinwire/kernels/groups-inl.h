// Only for x_isa.cc: groups of 32 elements from arrays of any length and type, whose last one may
// be short; scales in a message.
#pragma once

#include "thinwire/kernels/lanes-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

template <typename Elements>
constexpr int64_t kElementBytes = sizeof(Word16);
template <>
constexpr int64_t kElementBytes<F32Elements> = sizeof(Word32);

// The first `bytes` bytes, and zeros up to a whole group.
struct PaddedBytes {
  alignas(64) std::byte data[kBlockUnit * sizeof(Word32)] = {};
  THINWIRE_INLINE PaddedBytes(const std::byte* in, int64_t bytes) {
    __builtin_memcpy(data, in, static_cast<size_t>(bytes));
  }
};

// The next group of `left` elements; zeros stand for what is missing in it.
template <typename Elements>
THINWIRE_INLINE Group LoadNext(Elements elements, const std::byte* in, int64_t left) {
  if (left >= kBlockUnit) [[likely]]
    return Load(elements, in);
  return Load(elements, PaddedBytes(in, left * kElementBytes<Elements>).data);
}

template <typename Elements>
THINWIRE_INLINE void StoreNext(Elements elements, std::byte* out, int64_t left, const Group& x) {
  if (left >= kBlockUnit) [[likely]]
    return Store(elements, out, x);
  std::byte buffer[kBlockUnit * kElementBytes<Elements>];
  Store(elements, buffer, x);
  __builtin_memcpy(out, buffer, static_cast<size_t>(left * kElementBytes<Elements>));
}

THINWIRE_INLINE Group LoadOwn(DType dtype, const std::byte* in, int64_t left) {
  switch (dtype) {
    case DType::kF32:
      return LoadNext(F32Elements{}, in, left);
    case DType::kBF16:
      return LoadNext(BF16Elements{}, in, left);
    case DType::kF16:
      return LoadNext(FP16Elements{}, in, left);
  }
  __builtin_unreachable();
}

THINWIRE_INLINE void StoreScale(std::byte* scales, int64_t block, uint16_t bits) {
  reinterpret_cast<Word16*>(scales)[block] = bits;
}

// Bytes that are asked for before they are needed: a processor's own prefetching starts anew with
// each page of 4 KiB, and the codes of four blocks leave no room for the next in its window.
constexpr int64_t kAhead = 1024;

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA
