#include <algorithm>
#include <type_traits>

#include "thinwire/kernels/cuda/quads-inl.h"
#include "thinwire/kernels/cuda/quantize.h"

namespace thinwire::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// What one launch adds; a kernel's argument.
struct Terms {
  BlockTerm terms[kFusedTerms];
  int count = 0;
  bool accumulate = false;
};

template <CodeType kCode>
__device__ Quad TermQuad(const BlockTerm& term, int64_t size, int64_t block, int64_t q) {
  if (term.own.data == nullptr) {
    const float factor = ScaleFactor<kCode>(LoadScale(term.blocks.scales, q * kQuad / block));
    return Decode<kCode>(LoadCodes<kCode>(term.blocks.codes, size, q), factor);
  }
  switch (term.own.dtype) {
    case DType::kF32:
      return LoadQuad<DType::kF32>(term.own.data, size, q);
    case DType::kBF16:
      return LoadQuad<DType::kBF16>(term.own.data, size, q);
    default:
      return LoadQuad<DType::kF16>(term.own.data, size, q);
  }
}

// Where quads come from: an array, or a sum of terms.
template <DType kDType>
struct ArraySource {
  const std::byte* data;
  int64_t size;
  __device__ Quad operator()(int64_t q) const { return LoadQuad<kDType>(data, size, q); }
};

template <CodeType kCode>
struct SumSource {
  Terms terms;
  const std::byte* before;  // what to accumulate on, fp32
  int64_t size;
  int64_t block;

  __device__ Quad operator()(int64_t q) const {
    int t = 0;
    Quad sum = terms.accumulate ? LoadQuad<DType::kF32>(before, size, q)
                                : TermQuad<kCode>(terms.terms[t++], size, block, q);
    for (; t < terms.count; ++t) {
      const Quad term = TermQuad<kCode>(terms.terms[t], size, block, q);
      for (int i = 0; i < kQuad; ++i) sum.x[i] = __fadd_rn(sum.x[i], term.x[i]);
    }
    if (terms.count > 1 || terms.accumulate) {
      for (int i = 0; i < kQuad; ++i) {
        if (sum.x[i] != sum.x[i]) sum.x[i] = __uint_as_float(0x7fc00000u);
      }
    }
    return sum;
  }
};

// A warp quantizes a block; its first 128 elements stay in registers, more are read again.
template <CodeType kCode, typename Source>
__global__ void QuantizeKernel(Source source, int64_t size, int64_t block, MutableBlocks out) {
  const int64_t index = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  const int64_t begin = index * block;
  if (begin >= size) return;  // the whole warp
  const int64_t first = begin / kQuad + threadIdx.x % kWarp;
  const int64_t end = (min(begin + block, size) + kQuad - 1) / kQuad;
  uint32_t key = 0;
  Quad held = {};
  for (int64_t q = first; q < end; q += kWarp) {
    const Quad quad = source(q);
    if (q == first) held = quad;
    for (int i = 0; i < kQuad; ++i) key = max(key, ExtremeKey(__float_as_uint(quad.x[i])));
  }
  const BlockScale scale = ScaleOfBlock<kCode>(__reduce_max_sync(0xffffffffu, key));
  if (threadIdx.x % kWarp == 0) StoreScale(out.scales, index, scale.bits);
  for (int64_t q = first; q < end; q += kWarp) {
    StoreCodes<kCode>(out.codes, size, q,
                      Encode<kCode>(q == first ? held : source(q), scale.inverse));
  }
}

template <DType kDType, typename Source>
__global__ void StoreKernel(Source source, std::byte* out, int64_t size) {
  const int64_t q = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (q * kQuad < size) StoreQuad<kDType>(out, size, q, source(q));
}

void CheckLaunch() {
  const cudaError_t error = cudaGetLastError();
  THINWIRE_CHECK(error == cudaSuccess, cudaGetErrorString(error));
}

void CheckFormat(const BlockFormat& format) {
  THINWIRE_CHECK(
      format.block >= kBlockUnit && format.block <= kLargestBlock && format.block % kBlockUnit == 0,
      "blocks of ", format.block);
  THINWIRE_CHECK(format.code == CodeType::kInt8 || format.code == CodeType::kInt4,
                 "codes below four bits on a device");
}

unsigned GridOf(int64_t threads) {
  const int64_t grid = (threads + kThreads - 1) / kThreads;
  THINWIRE_CHECK(grid <= INT32_MAX, threads, " threads in one launch");
  return static_cast<unsigned>(grid);
}

template <CodeType kCode>
using CodeConstant = std::integral_constant<CodeType, kCode>;
template <DType kDType>
using DTypeConstant = std::integral_constant<DType, kDType>;

template <typename Body>
void WithCodes(CodeType type, const Body& body) {
  return type == CodeType::kInt8 ? body(CodeConstant<CodeType::kInt8>{})
                                 : body(CodeConstant<CodeType::kInt4>{});
}

template <typename Body>
void WithDType(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32:
      return body(DTypeConstant<DType::kF32>{});
    case DType::kBF16:
      return body(DTypeConstant<DType::kBF16>{});
    case DType::kF16:
      return body(DTypeConstant<DType::kF16>{});
  }
}

template <CodeType kCode, typename Source>
void LaunchQuantize(cudaStream_t stream, const Source& source, int64_t size, int64_t block,
                    MutableBlocks out) {
  if (size == 0) return;
  const int64_t warps = (size + block - 1) / block;
  QuantizeKernel<kCode><<<GridOf(warps * kWarp), kThreads, 0, stream>>>(source, size, block, out);
  CheckLaunch();
}

template <DType kDType, typename Source>
void LaunchStore(cudaStream_t stream, const Source& source, std::byte* out, int64_t size) {
  if (size == 0) return;
  const int64_t quads = (size + kQuad - 1) / kQuad;
  StoreKernel<kDType><<<GridOf(quads), kThreads, 0, stream>>>(source, out, size);
  CheckLaunch();
}

Terms TermsOf(std::span<const BlockTerm> terms, bool accumulate) {
  Terms result;
  result.count = static_cast<int>(terms.size());
  result.accumulate = accumulate;
  std::copy(terms.begin(), terms.end(), result.terms);
  return result;
}

void CheckTerms(std::span<const BlockTerm> terms, int64_t size) {
  for (const BlockTerm& term : terms) {
    THINWIRE_CHECK(term.own.data == nullptr || term.own.size == size, "a term of ", term.own.size,
                   " elements in a sum of ", size);
  }
}

}  // namespace

void Quantize(cudaStream_t stream, const BlockFormat& format, ConstArray in, MutableBlocks out) {
  CheckFormat(format);
  WithCodes(format.code, [&](auto code) {
    WithDType(in.dtype, [&](auto dtype) {
      const ArraySource<dtype()> source{in.data, in.size};
      LaunchQuantize<code()>(stream, source, in.size, format.block, out);
    });
  });
}

void Dequantize(cudaStream_t stream, const BlockFormat& format, ConstBlocks in, Array out) {
  CheckFormat(format);
  const BlockTerm term{in, {}};
  WithCodes(format.code, [&](auto code) {
    WithDType(out.dtype, [&](auto dtype) {
      const SumSource<code()> source{TermsOf({&term, 1}, false), nullptr, out.size, format.block};
      LaunchStore<dtype()>(stream, source, out.data, out.size);
    });
  });
}

void DequantizeSum(cudaStream_t stream, const BlockFormat& format, std::span<const BlockTerm> terms,
                   bool accumulate, std::span<float> out) {
  CheckFormat(format);
  const Array sum = out;
  CheckTerms(terms, sum.size);
  if (terms.empty() && !accumulate) {
    const cudaError_t error =
        cudaMemsetAsync(sum.data, 0, static_cast<size_t>(sum.bytes()), stream);
    THINWIRE_CHECK(error == cudaSuccess, cudaGetErrorString(error));
  }
  while (!terms.empty()) {
    const auto pass = terms.first(std::min(terms.size(), kFusedTerms));
    WithCodes(format.code, [&](auto code) {
      const SumSource<code()> source{TermsOf(pass, accumulate), sum.data, sum.size, format.block};
      LaunchStore<DType::kF32>(stream, source, sum.data, sum.size);
    });
    terms = terms.subspan(pass.size());
    accumulate = true;
  }
}

void DequantizeSumQuantize(cudaStream_t stream, const BlockFormat& format,
                           std::span<const BlockTerm> terms, int64_t size, CodeType out_code,
                           MutableBlocks out) {
  CheckFormat(format);
  CheckTerms(terms, size);
  THINWIRE_CHECK(!terms.empty() && terms.size() <= kFusedTerms, terms.size(), " terms");
  WithCodes(format.code, [&](auto code) {
    WithCodes(out_code, [&](auto out_type) {
      const SumSource<code()> source{TermsOf(terms, false), nullptr, size, format.block};
      LaunchQuantize<out_type()>(stream, source, size, format.block, out);
    });
  });
}

}  // namespace thinwire::kernels::cuda
