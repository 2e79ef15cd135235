// Only for .cu files: four consecutive elements, the share of one thread, in registers as fp32. The
// arithmetic is spelled out with the intrinsics that neither fuse nor approximate.
#pragma once

#include <cstdint>
#include <type_traits>

#include "thinwire/base/dtype.h"
#include "thinwire/kernels/quantize.h"

namespace thinwire::kernels::cuda {

constexpr int kQuad = 4;
constexpr int kWarp = 32;

struct Quad {
  float x[kQuad];
};

template <typename T>
__device__ bool IsAligned(const void* p) {
  return reinterpret_cast<uintptr_t>(p) % sizeof(T) == 0;
}

// Elements 4 * q to 4 * q + 3 of an array; zeros stand for those past its end.
template <DType kDType>
__device__ Quad LoadQuad(const std::byte* data, int64_t size, int64_t q) {
  Quad quad = {};
  const bool whole = (q + 1) * kQuad <= size;
  if constexpr (kDType == DType::kF32) {
    const float* in = reinterpret_cast<const float*>(data) + q * kQuad;
    if (whole && IsAligned<float4>(in)) {
      const float4 v = *reinterpret_cast<const float4*>(in);
      return {{v.x, v.y, v.z, v.w}};
    }
    for (int i = 0; i < kQuad; ++i) {
      if (q * kQuad + i < size) quad.x[i] = in[i];
    }
  } else {
    const auto wide = [](uint32_t bits) {
      const uint16_t half = static_cast<uint16_t>(bits);
      return kDType == DType::kBF16 ? ToFloat(BF16{half}) : ToFloat(FP16{half});
    };
    const uint16_t* in = reinterpret_cast<const uint16_t*>(data) + q * kQuad;
    if (whole && IsAligned<uint2>(in)) {
      const uint2 v = *reinterpret_cast<const uint2*>(in);
      return {{wide(v.x), wide(v.x >> 16), wide(v.y), wide(v.y >> 16)}};
    }
    for (int i = 0; i < kQuad; ++i) {
      if (q * kQuad + i < size) quad.x[i] = wide(in[i]);
    }
  }
  return quad;
}

template <DType kDType>
__device__ void StoreQuad(std::byte* data, int64_t size, int64_t q, const Quad& quad) {
  const bool whole = (q + 1) * kQuad <= size;
  if constexpr (kDType == DType::kF32) {
    float* out = reinterpret_cast<float*>(data) + q * kQuad;
    if (whole && IsAligned<float4>(out)) {
      *reinterpret_cast<float4*>(out) = {quad.x[0], quad.x[1], quad.x[2], quad.x[3]};
      return;
    }
    for (int i = 0; i < kQuad; ++i) {
      if (q * kQuad + i < size) out[i] = quad.x[i];
    }
  } else {
    const auto narrow = [&](int i) -> uint32_t {
      return kDType == DType::kBF16 ? ToBF16(quad.x[i]).bits : ToFP16(quad.x[i]).bits;
    };
    uint16_t* out = reinterpret_cast<uint16_t*>(data) + q * kQuad;
    if (whole && IsAligned<uint2>(out)) {
      *reinterpret_cast<uint2*>(out) = {narrow(0) | narrow(1) << 16, narrow(2) | narrow(3) << 16};
      return;
    }
    for (int i = 0; i < kQuad; ++i) {
      if (q * kQuad + i < size) out[i] = static_cast<uint16_t>(narrow(i));
    }
  }
}

// Bits per code, and the bytes of the codes of an array.
template <CodeType kCode>
constexpr int kCodeBits = kCode == CodeType::kInt8 ? 8 : 4;
template <CodeType kCode>
__device__ int64_t CodeBytes(int64_t size) {
  return kCode == CodeType::kInt8 ? size : size - size / 2;
}

// The codes of quad q, the first in the lowest bits.
template <CodeType kCode>
__device__ uint32_t LoadCodes(const std::byte* codes, int64_t size, int64_t q) {
  using Word = std::conditional_t<kCode == CodeType::kInt8, uint32_t, uint16_t>;
  constexpr int kBytes = sizeof(Word);
  const std::byte* in = codes + q * kBytes;
  const int64_t left = CodeBytes<kCode>(size) - q * kBytes;
  if (left >= kBytes && IsAligned<Word>(in)) return *reinterpret_cast<const Word*>(in);
  uint32_t word = 0;
  for (int i = 0; i < kBytes && i < left; ++i) word |= static_cast<uint32_t>(in[i]) << (8 * i);
  return word;
}

template <CodeType kCode>
__device__ void StoreCodes(std::byte* codes, int64_t size, int64_t q, uint32_t word) {
  using Word = std::conditional_t<kCode == CodeType::kInt8, uint32_t, uint16_t>;
  constexpr int kBytes = sizeof(Word);
  std::byte* out = codes + q * kBytes;
  const int64_t left = CodeBytes<kCode>(size) - q * kBytes;
  if (left >= kBytes && IsAligned<Word>(out)) {
    *reinterpret_cast<Word*>(out) = static_cast<Word>(word);
    return;
  }
  for (int i = 0; i < kBytes && i < left; ++i) out[i] = static_cast<std::byte>(word >> (8 * i));
}

template <CodeType kCode>
__device__ uint32_t Encode(const Quad& quad, float inverse) {
  constexpr uint32_t kMask = (1u << kCodeBits<kCode>)-1;
  uint32_t word = 0;
  for (int i = 0; i < kQuad; ++i) {
    int code = __float2int_rn(__fmul_rn(quad.x[i], inverse));
    if (kCode == CodeType::kInt4) code = min(code, 7);
    word |= (static_cast<uint32_t>(code) & kMask) << (i * kCodeBits<kCode>);
  }
  return inverse == 0 ? 0 : word;  // also where NaN or inf would give something else
}

template <CodeType kCode>
__device__ Quad Decode(uint32_t word, float factor) {
  Quad quad;
  for (int i = 0; i < kQuad; ++i) {
    constexpr int kTop = 32 - kCodeBits<kCode>;
    const int code = static_cast<int>(word << (kTop - i * kCodeBits<kCode>)) >> kTop;
    quad.x[i] = __fmul_rn(static_cast<float>(code), factor);
  }
  return quad;
}

__device__ inline uint16_t LoadScale(const std::byte* scales, int64_t block) {
  const std::byte* in = scales + 2 * block;
  return static_cast<uint16_t>(static_cast<uint32_t>(in[0]) | static_cast<uint32_t>(in[1]) << 8);
}

__device__ inline void StoreScale(std::byte* scales, int64_t block, uint16_t bits) {
  scales[2 * block] = static_cast<std::byte>(bits);
  scales[2 * block + 1] = static_cast<std::byte>(bits >> 8);
}

}  // namespace thinwire::kernels::cuda
