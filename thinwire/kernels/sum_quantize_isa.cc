#include "thinwire/kernels/quantize_isa.h"

#if defined(__AVX2__)
#include "thinwire/kernels/exact_sum-inl.h"
#else
#include "thinwire/kernels/exact_sum_none-inl.h"
#endif
