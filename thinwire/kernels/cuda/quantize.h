// quantize.h on a GPU: the same formats and the same bits, on device memory. Calls enqueue on
// `stream` and return; errors of the launch throw InternalError, later ones are the stream's.
//
// Codes and scales may start at any byte; elements at multiples of their size. Quick are arrays
// that start at multiples of 16 bytes, codes at multiples of 4.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "thinwire/kernels/quantize.h"

namespace thinwire::kernels::cuda {

// With ScaleChoice::kExtreme.
void Quantize(cudaStream_t stream, const BlockFormat& format, ConstArray in, MutableBlocks out);

void Dequantize(cudaStream_t stream, const BlockFormat& format, ConstBlocks in, Array out);

// `terms` is host memory that describes device memory; it may go when the call returns.
void DequantizeSum(cudaStream_t stream, const BlockFormat& format, std::span<const BlockTerm> terms,
                   bool accumulate, std::span<float> out);

// At most kFusedTerms terms, at least one.
constexpr size_t kFusedTerms = 16;
void DequantizeSumQuantize(cudaStream_t stream, const BlockFormat& format,
                           std::span<const BlockTerm> terms, int64_t size, CodeType out_code,
                           MutableBlocks out);

}  // namespace thinwire::kernels::cuda
