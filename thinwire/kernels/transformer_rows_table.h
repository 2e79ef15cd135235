// The bodies of transformer_rows.h as each instruction set compiles them. Raw pointers: nothing in
// those files may be shared by the linker with code for an older processor.
#pragma once

#include "thinwire/kernels/transformer_rows.h"

namespace thinwire::kernels {

template <typename T>
struct TransformerRows {
  void (*rms_norm)(RowShape, const T* x, const T* weight, float eps, T* y, float* inverse_rms);
  void (*rms_norm_grad)(RowShape, const T* x, const T* weight, const float* inverse_rms,
                        const T* dy, T* dx);
  void (*rms_norm_weight_grad)(RowShape, const T* x, const float* inverse_rms, const T* dy,
                               T* dweight);
  void (*swiglu)(int64_t n, const T* gate, const T* up, T* out);
  void (*swiglu_grad)(int64_t n, const T* gate, const T* up, const T* dout, T* dgate, T* dup);
  void (*causal_softmax)(const CausalShape&, T* scores);
  void (*causal_softmax_grad)(const CausalShape&, const T* p, T* dp);
  void (*cross_entropy)(RowShape, T* logits, const int64_t* targets, float grad_scale,
                        float* losses);
  void (*to_heads)(const HeadShape&, const T* in, const float* cosine, const float* sine, T* out);
  void (*from_heads)(const HeadShape&, const T* in, const float* cosine, const float* sine, T* out);
};

struct TransformerRowsTable {
  TransformerRows<float> f32;
  TransformerRows<BF16> bf16;
};

namespace scalar {
const TransformerRowsTable& TransformerRowsOfIsa();
}
namespace avx2 {
const TransformerRowsTable& TransformerRowsOfIsa();
}
namespace avx512 {
const TransformerRowsTable& TransformerRowsOfIsa();
}
namespace neon {
const TransformerRowsTable& TransformerRowsOfIsa();
}

}  // namespace thinwire::kernels
