// The bodies of decoder_rows.h; checks are the caller's.
#pragma once

#include "thinwire/kernels/decoder_rows.h"
#include "thinwire/kernels/per_isa.h"

namespace thinwire::kernels {

THINWIRE_PER_ISA(void RootMeanSquareNormRow(int64_t columns, const float* x, const float* weight,
                                            float eps, float* y);
                 void LayerNormRow(int64_t columns, const float* x, const float* weight,
                                   const float* bias, float eps, float* y);
                 // `factor` may be null.
                 void ActivateRow(Activation activation, int64_t size, const float* factor,
                                  float* x);
                 void AddRow(int64_t size, const float* y, float* x);
                 float Largest(int64_t size, const float* x);
                 // of e^(x - offset)
                 float SumOfExp(int64_t size, const float* x, float offset);
                 void RotateHeads(const RotaryShape& shape, const float* cosines,
                                  const float* sines, float* x);)

}  // namespace thinwire::kernels
