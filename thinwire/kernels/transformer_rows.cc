#include "thinwire/kernels/transformer_rows.h"

#include "thinwire/kernels/transformer_rows_table.h"

namespace thinwire::kernels {
namespace {

const TransformerRowsTable& TableOf(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAvx2:
      return avx2::TransformerRowsOfIsa();
    case Isa::kAvx512:
      return avx512::TransformerRowsOfIsa();
#elif defined(__aarch64__)
    case Isa::kNeon:
      return neon::TransformerRowsOfIsa();
#endif
    default:
      return scalar::TransformerRowsOfIsa();
  }
}

// Calls body(rows of T, T{}) for the dtype of the arrays.
template <typename Body>
void Dispatch(const ExecContext& context, DType dtype, const Body& body) {
  const TransformerRowsTable& table = TableOf(context.isa);
  THINWIRE_CHECK(dtype == DType::kF32 || dtype == DType::kBF16, NameOf(dtype));
  if (dtype == DType::kF32) {
    body(table.f32, float{});
  } else {
    body(table.bf16, BF16{});
  }
}

void CheckSize(const ConstArray& array, DType dtype, int64_t size) {
  THINWIRE_CHECK(array.dtype == dtype && array.size == size, NameOf(array.dtype), "[", array.size,
                 "], want ", NameOf(dtype), "[", size, "]");
}

template <typename T>
const T* In(const ConstArray& array) {
  return reinterpret_cast<const T*>(array.data);
}
template <typename T>
T* Out(const Array& array) {
  return reinterpret_cast<T*>(array.data);
}

}  // namespace

void RmsNorm(const ExecContext& context, RowShape shape, ConstArray x, ConstArray weight, float eps,
             Array y, std::span<float> inverse_rms) {
  const int64_t size = shape.rows * shape.columns;
  CheckSize(x, x.dtype, size);
  CheckSize(weight, x.dtype, shape.columns);
  CheckSize(y, x.dtype, size);
  THINWIRE_CHECK(std::ssize(inverse_rms) == shape.rows);
  Dispatch(context, x.dtype, [&]<typename T>(const auto& rows, T) {
    rows.rms_norm(shape, In<T>(x), In<T>(weight), eps, Out<T>(y), inverse_rms.data());
  });
}

void RmsNormGrad(const ExecContext& context, RowShape shape, ConstArray x, ConstArray weight,
                 std::span<const float> inverse_rms, ConstArray dy, Array dx) {
  const int64_t size = shape.rows * shape.columns;
  CheckSize(x, x.dtype, size);
  CheckSize(weight, x.dtype, shape.columns);
  CheckSize(dy, x.dtype, size);
  CheckSize(dx, x.dtype, size);
  THINWIRE_CHECK(std::ssize(inverse_rms) == shape.rows);
  Dispatch(context, x.dtype, [&]<typename T>(const auto& rows, T) {
    rows.rms_norm_grad(shape, In<T>(x), In<T>(weight), inverse_rms.data(), In<T>(dy), Out<T>(dx));
  });
}

void RmsNormWeightGrad(const ExecContext& context, RowShape shape, ConstArray x,
                       std::span<const float> inverse_rms, ConstArray dy, Array dweight) {
  const int64_t size = shape.rows * shape.columns;
  CheckSize(x, x.dtype, size);
  CheckSize(dy, x.dtype, size);
  CheckSize(dweight, x.dtype, shape.columns);
  THINWIRE_CHECK(std::ssize(inverse_rms) == shape.rows);
  Dispatch(context, x.dtype, [&]<typename T>(const auto& rows, T) {
    rows.rms_norm_weight_grad(shape, In<T>(x), inverse_rms.data(), In<T>(dy), Out<T>(dweight));
  });
}

void SwiGlu(const ExecContext& context, ConstArray gate, ConstArray up, Array out) {
  CheckSize(up, gate.dtype, gate.size);
  CheckSize(out, gate.dtype, gate.size);
  Dispatch(context, gate.dtype, [&]<typename T>(const auto& rows, T) {
    rows.swiglu(gate.size, In<T>(gate), In<T>(up), Out<T>(out));
  });
}

void SwiGluGrad(const ExecContext& context, ConstArray gate, ConstArray up, ConstArray dout,
                Array dgate, Array dup) {
  for (const ConstArray& array : {up, dout, ConstArray(dgate), ConstArray(dup)}) {
    CheckSize(array, gate.dtype, gate.size);
  }
  Dispatch(context, gate.dtype, [&]<typename T>(const auto& rows, T) {
    rows.swiglu_grad(gate.size, In<T>(gate), In<T>(up), In<T>(dout), Out<T>(dgate), Out<T>(dup));
  });
}

void CausalSoftmax(const ExecContext& context, const CausalShape& shape, Array scores) {
  CheckSize(scores, scores.dtype, shape.rows * shape.keys);
  THINWIRE_CHECK(shape.first + (shape.rows - 1) / shape.group < shape.keys);
  Dispatch(context, scores.dtype,
           [&]<typename T>(const auto& rows, T) { rows.causal_softmax(shape, Out<T>(scores)); });
}

void CausalSoftmaxGrad(const ExecContext& context, const CausalShape& shape,
                       ConstArray probabilities, Array d_probabilities) {
  CheckSize(probabilities, probabilities.dtype, shape.rows * shape.keys);
  CheckSize(d_probabilities, probabilities.dtype, shape.rows * shape.keys);
  THINWIRE_CHECK(shape.first + (shape.rows - 1) / shape.group < shape.keys);
  Dispatch(context, probabilities.dtype, [&]<typename T>(const auto& rows, T) {
    rows.causal_softmax_grad(shape, In<T>(probabilities), Out<T>(d_probabilities));
  });
}

void CrossEntropy(const ExecContext& context, RowShape shape, Array logits,
                  std::span<const int64_t> targets, float grad_scale, std::span<float> losses) {
  CheckSize(logits, logits.dtype, shape.rows * shape.columns);
  THINWIRE_CHECK(std::ssize(targets) == shape.rows && std::ssize(losses) == shape.rows);
  for (const int64_t target : targets) {
    THINWIRE_CHECK(target >= 0 && target < shape.columns, "token ", target, " of ", shape.columns);
  }
  Dispatch(context, logits.dtype, [&]<typename T>(const auto& rows, T) {
    rows.cross_entropy(shape, Out<T>(logits), targets.data(), grad_scale, losses.data());
  });
}

void ToHeads(const ExecContext& context, const HeadShape& shape, ConstArray in, const float* cosine,
             const float* sine, Array out) {
  CheckSize(in, in.dtype, shape.numel());
  CheckSize(out, in.dtype, shape.numel());
  THINWIRE_CHECK(shape.dim % 2 == 0, shape.dim);
  Dispatch(context, in.dtype, [&]<typename T>(const auto& rows, T) {
    rows.to_heads(shape, In<T>(in), cosine, sine, Out<T>(out));
  });
}

void FromHeads(const ExecContext& context, const HeadShape& shape, ConstArray in,
               const float* cosine, const float* sine, Array out) {
  CheckSize(in, in.dtype, shape.numel());
  CheckSize(out, in.dtype, shape.numel());
  THINWIRE_CHECK(shape.dim % 2 == 0, shape.dim);
  Dispatch(context, in.dtype, [&]<typename T>(const auto& rows, T) {
    rows.from_heads(shape, In<T>(in), cosine, sine, Out<T>(out));
  });
}

}  // namespace thinwire::kernels
