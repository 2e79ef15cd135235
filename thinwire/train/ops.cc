#include "thinwire/train/ops.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <numeric>

#include "thinwire/kernels/transformer_rows.h"
#include "thinwire/train/spans.h"

namespace thinwire::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

at::Tensor Empty(int64_t n) { return at::empty({n}, at::kFloat); }

struct RmsNormFunction : Function<RmsNormFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double eps) {
    const int64_t columns = x.size(-1);
    const int64_t rows = x.numel() / columns;
    at::Tensor y = at::empty_like(x);
    const at::Tensor inverse = Empty(rows);
    ParallelRows(rows, columns, [&](int64_t begin, int64_t end) {
      const int64_t n = end - begin;
      kernels::RmsNorm(
          {}, {n, columns}, RowsOf(x, columns, begin, n), ArrayOf(weight), static_cast<float>(eps),
          RowsOf(y, columns, begin, n),
          FloatsOf(inverse).subspan(static_cast<size_t>(begin), static_cast<size_t>(n)));
    });
    context->save_for_backward({x, weight, inverse});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &inverse = saved[2];
    const at::Tensor dy = grads[0].contiguous();
    const int64_t columns = x.size(-1);
    const int64_t rows = x.numel() / columns;
    at::Tensor dx = at::empty_like(x), dweight = at::empty_like(weight);
    ParallelRows(rows, columns, [&](int64_t begin, int64_t end) {
      const int64_t n = end - begin;
      kernels::RmsNormGrad(
          {}, {n, columns}, RowsOf(x, columns, begin, n), ArrayOf(weight),
          FloatsOf(inverse).subspan(static_cast<size_t>(begin), static_cast<size_t>(n)),
          RowsOf(dy, columns, begin, n), RowsOf(dx, columns, begin, n));
    });
    kernels::RmsNormWeightGrad({}, {rows, columns}, ArrayOf(x), FloatsOf(inverse), ArrayOf(dy),
                               ArrayOf(dweight));
    return {dx, dweight, at::Tensor()};
  }
};

struct SwiGluFunction : Function<SwiGluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up) {
    at::Tensor out = at::empty_like(gate);
    ParallelRows(gate.numel(), 1, [&](int64_t begin, int64_t end) {
      const int64_t n = end - begin;
      kernels::SwiGlu({}, RowsOf(gate, 1, begin, n), RowsOf(up, 1, begin, n),
                      RowsOf(out, 1, begin, n));
    });
    context->save_for_backward({gate, up});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1];
    const at::Tensor dout = grads[0].contiguous();
    at::Tensor dgate = at::empty_like(gate), dup = at::empty_like(up);
    ParallelRows(gate.numel(), 1, [&](int64_t begin, int64_t end) {
      const int64_t n = end - begin;
      kernels::SwiGluGrad({}, RowsOf(gate, 1, begin, n), RowsOf(up, 1, begin, n),
                          RowsOf(dout, 1, begin, n), RowsOf(dgate, 1, begin, n),
                          RowsOf(dup, 1, begin, n));
    });
    return {dgate, dup};
  }
};

// --- attention, head-major: queries [batch * kv_heads, tokens * group, dim]

// Rows of queries handled at a time: bounds the scores at rows x keys per head, and skips the
// blocks above the diagonal. 256 rows keep the product of one head above 2 MFLOP, where torch's
// batched product runs at its full speed.
constexpr int64_t kQueryRows = 256;

kernels::HeadShape HeadsOf(const at::Tensor& token_major, int64_t kv_heads, int64_t heads) {
  return {.batch = token_major.size(0),
          .tokens = token_major.size(1),
          .kv_heads = kv_heads,
          .group = heads / kv_heads,
          .dim = token_major.size(2) / heads};
}

at::Tensor ToHeads(const kernels::HeadShape& shape, const at::Tensor& x, const at::Tensor* cosine,
                   const at::Tensor* sine) {
  at::Tensor out =
      at::empty({shape.batch * shape.kv_heads, shape.tokens * shape.group, shape.dim}, x.options());
  kernels::ToHeads({}, shape, ArrayOf(x.contiguous()), cosine ? cosine->data_ptr<float>() : nullptr,
                   sine ? sine->data_ptr<float>() : nullptr, ArrayOf(out));
  return out;
}

at::Tensor FromHeads(const kernels::HeadShape& shape, const at::Tensor& x, const at::Tensor* cosine,
                     const at::Tensor* sine) {
  at::Tensor out =
      at::empty({shape.batch, shape.tokens, shape.kv_heads * shape.group * shape.dim}, x.options());
  kernels::FromHeads({}, shape, ArrayOf(x), cosine ? cosine->data_ptr<float>() : nullptr,
                     sine ? sine->data_ptr<float>() : nullptr, ArrayOf(out));
  return out;
}

// One block of queries: its place among the tokens and the keys it sees.
struct Block {
  int64_t first = 0;  // token of the first query, from the start of the keys
  int64_t tokens = 0;
  int64_t group = 1;

  int64_t keys() const { return first + tokens; }
  at::Tensor Queries(const at::Tensor& q, int64_t offset) const {
    return q.narrow(1, (first - offset) * group, tokens * group);
  }
  at::Tensor Keys(const at::Tensor& k) const { return k.narrow(1, 0, keys()); }
};

template <typename Body>
void ForEachBlock(int64_t tokens, int64_t group, int64_t position, const Body& body) {
  const int64_t step = std::max<int64_t>(1, kQueryRows / group);
  for (int64_t t = 0; t < tokens; t += step) {
    body(Block{position + t, std::min(step, tokens - t), group});
  }
}

// body(shape, begin, rows): every head of a block, cut into pieces of rows for the threads.
template <typename Body>
void ForEachHead(const at::Tensor& scores, const Block& block, float scale, const Body& body) {
  const int64_t rows = scores.size(1);
  const kernels::CausalShape shape{rows, block.keys(), block.first, block.group, scale};
  at::parallel_for(0, scores.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) body(shape, head * rows);
  });
}

float ScaleOf(const at::Tensor& q) { return 1.0f / std::sqrt(static_cast<float>(q.size(2))); }

at::Tensor Probabilities(const at::Tensor& q, const at::Tensor& k, const Block& block) {
  at::Tensor scores = q.bmm(k.transpose(1, 2));
  ForEachHead(scores, block, ScaleOf(q), [&](const kernels::CausalShape& shape, int64_t row) {
    kernels::CausalSoftmax({}, shape, RowsOf(scores, shape.keys, row, shape.rows));
  });
  return scores;
}

at::Tensor Attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t group,
                  int64_t position) {
  const int64_t tokens = q.size(1) / group;
  at::Tensor out;
  ForEachBlock(tokens, group, position, [&](const Block& block) {
    const at::Tensor p = Probabilities(block.Queries(q, position), block.Keys(k), block);
    const at::Tensor part = p.bmm(block.Keys(v));
    if (block.tokens == tokens) {
      out = part;
      return;
    }
    if (!out.defined()) out = at::empty_like(q);
    block.Queries(out, position).copy_(part);
  });
  return out;
}

struct AttentionGrads {
  at::Tensor q, k, v;
};

AttentionGrads AttendGrad(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const at::Tensor& dout, int64_t group) {
  const int64_t tokens = q.size(1) / group;
  AttentionGrads grads;
  ForEachBlock(tokens, group, 0, [&](const Block& block) {
    const at::Tensor q_block = block.Queries(q, 0), d_block = block.Queries(dout, 0);
    const at::Tensor k_block = block.Keys(k), v_block = block.Keys(v);
    const at::Tensor p = Probabilities(q_block, k_block, block);
    const at::Tensor ds = d_block.bmm(v_block.transpose(1, 2));
    ForEachHead(ds, block, ScaleOf(q), [&](const kernels::CausalShape& shape, int64_t row) {
      kernels::CausalSoftmaxGrad({}, shape, RowsOf(p, shape.keys, row, shape.rows),
                                 RowsOf(ds, shape.keys, row, shape.rows));
    });
    const at::Tensor dq = ds.bmm(k_block), dk = ds.transpose(1, 2).bmm(q_block),
                     dv = p.transpose(1, 2).bmm(d_block);
    if (block.tokens == tokens) {
      grads = {dq, dk, dv};
      return;
    }
    if (!grads.q.defined()) {
      grads.q = at::empty_like(q);
      // Many blocks add to one key: in fp32, rounded once at the end.
      grads.k = at::zeros_like(k, k.options().dtype(at::kFloat));
      grads.v = at::zeros_like(grads.k);
    }
    block.Queries(grads.q, 0).copy_(dq);
    block.Keys(grads.k).add_(dk);
    block.Keys(grads.v).add_(dv);
  });
  return {grads.q, grads.k.to(k.scalar_type()), grads.v.to(k.scalar_type())};
}

struct AttentionFunction : Function<AttentionFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const at::Tensor& cosine, const at::Tensor& sine,
                            int64_t heads, int64_t kv_heads) {
    const kernels::HeadShape q_shape = HeadsOf(q, kv_heads, heads);
    const kernels::HeadShape k_shape = HeadsOf(k, kv_heads, kv_heads);
    const at::Tensor qh = ToHeads(q_shape, q, &cosine, &sine);
    const at::Tensor kh = ToHeads(k_shape, k, &cosine, &sine);
    const at::Tensor vh = ToHeads(k_shape, v, nullptr, nullptr);
    context->save_for_backward({qh, kh, vh, cosine, sine});
    context->saved_data["batch"] = q.size(0);
    context->saved_data["kv_heads"] = kv_heads;
    return FromHeads(q_shape, Attend(qh, kh, vh, q_shape.group, 0), nullptr, nullptr);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const at::Tensor &cosine = saved[3], &sine = saved[4];
    const kernels::HeadShape k_shape{.batch = context->saved_data["batch"].toInt(),
                                     .tokens = k.size(1),
                                     .kv_heads = context->saved_data["kv_heads"].toInt(),
                                     .group = 1,
                                     .dim = k.size(2)};
    kernels::HeadShape q_shape = k_shape;
    q_shape.group = q.size(1) / k.size(1);
    const at::Tensor dout = ToHeads(q_shape, grads[0], nullptr, nullptr);
    const AttentionGrads d = AttendGrad(q, k, v, dout, q_shape.group);
    return {FromHeads(q_shape, d.q, &cosine, &sine),
            FromHeads(k_shape, d.k, &cosine, &sine),
            FromHeads(k_shape, d.v, nullptr, nullptr),
            at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

struct CrossEntropyFunction : Function<CrossEntropyFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, bool gradient) {
    const int64_t rows = logits.size(0), columns = logits.size(1);
    const at::Tensor losses = Empty(rows);
    const std::span<const int64_t> target(targets.const_data_ptr<int64_t>(),
                                          static_cast<size_t>(rows));
    const float scale = gradient ? 1.0f / static_cast<float>(rows) : 0.0f;
    ParallelRows(rows, columns, [&](int64_t begin, int64_t end) {
      const auto at = static_cast<size_t>(begin), n = static_cast<size_t>(end - begin);
      kernels::CrossEntropy({}, {end - begin, columns}, RowsOf(logits, columns, begin, end - begin),
                            target.subspan(at, n), scale, FloatsOf(losses).subspan(at, n));
    });
    const std::span<const float> each = FloatsOf(losses);
    const double sum = std::accumulate(each.begin(), each.end(), 0.0);
    // Detached: the logits' memory now holds their gradient, whose version is nobody's business.
    if (gradient) context->saved_data["gradient"] = logits.detach();
    at::Tensor loss = at::empty({}, losses.options());
    loss.fill_(sum / static_cast<double>(rows));
    return loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    at::Tensor gradient = context->saved_data["gradient"].toTensor();
    context->saved_data.clear();
    const double scale = grads[0].item<double>();
    if (scale != 1.0) gradient.mul_(scale);
    return {gradient, at::Tensor(), at::Tensor()};
  }
};

bool IsHalf(const at::Tensor& x) { return x.scalar_type() == at::kHalf; }

}  // namespace

Rotary::Rotary(int64_t position_count, int64_t head_dim, double theta)
    : cosine(at::empty({position_count, head_dim / 2}, at::kFloat)),
      sine(at::empty({position_count, head_dim / 2}, at::kFloat)) {
  const int64_t half = head_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    // fp32 as in Hugging Face's LLaMA, where the tables are made in that precision.
    const float frequency = static_cast<float>(
        1.0 / std::pow(theta, 2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
    for (int64_t t = 0; t < position_count; ++t) {
      const float angle = static_cast<float>(t) * frequency;
      cosine.data_ptr<float>()[t * half + i] = std::cos(angle);
      sine.data_ptr<float>()[t * half + i] = std::sin(angle);
    }
  }
}

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, float eps) {
  if (IsHalf(x)) return RmsNorm(x.to(at::kFloat), weight.to(at::kFloat), eps).to(at::kHalf);
  return RmsNormFunction::apply(x.contiguous(), weight, double{eps});
}

at::Tensor SwiGlu(const at::Tensor& gate, const at::Tensor& up) {
  if (IsHalf(gate)) return SwiGlu(gate.to(at::kFloat), up.to(at::kFloat)).to(at::kHalf);
  return SwiGluFunction::apply(gate.contiguous(), up.contiguous());
}

at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const Rotary& rotary, const AttentionShape& shape) {
  THINWIRE_CHECK(q.size(1) <= rotary.positions(), q.size(1), " tokens");
  if (IsHalf(q)) {
    return CausalAttention(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), rotary, shape)
        .to(at::kHalf);
  }
  return AttentionFunction::apply(q, k, v, rotary.cosine, rotary.sine, shape.heads, shape.kv_heads);
}

at::Tensor CachedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const Rotary& rotary, const AttentionShape& shape, int64_t position,
                           AttentionCache& cache) {
  const int64_t tokens = q.size(1);
  THINWIRE_CHECK(q.size(0) == 1 && position + tokens <= rotary.positions());
  const kernels::HeadShape q_shape = HeadsOf(q, shape.kv_heads, shape.heads);
  const kernels::HeadShape k_shape = HeadsOf(k, shape.kv_heads, shape.kv_heads);
  const at::Tensor cosine = rotary.cosine.narrow(0, position, tokens);
  const at::Tensor sine = rotary.sine.narrow(0, position, tokens);
  cache.k.narrow(1, position, tokens).copy_(ToHeads(k_shape, k, &cosine, &sine));
  cache.v.narrow(1, position, tokens).copy_(ToHeads(k_shape, v, nullptr, nullptr));
  const at::Tensor out =
      Attend(ToHeads(q_shape, q, &cosine, &sine), cache.k, cache.v, q_shape.group, position);
  return FromHeads(q_shape, out, nullptr, nullptr);
}

at::Tensor CrossEntropy(const at::Tensor& logits, const at::Tensor& targets) {
  if (IsHalf(logits)) return CrossEntropy(logits.to(at::kFloat), targets);
  return CrossEntropyFunction::apply(logits.contiguous(), targets,
                                     c10::GradMode::is_enabled() && logits.requires_grad());
}

}  // namespace thinwire::train
