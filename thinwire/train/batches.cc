#include "thinwire/train/batches.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace thinwire::train {

Batches::Batches(const Sampler& sampler, const BatchShape& shape)
    : sampler_(sampler),
      shape_(shape),
      tokens_(at::empty({shape.micro_batch, shape.sequence_length}, at::kLong)),
      targets_(at::empty_like(tokens_)) {}

void Batches::Load(int64_t step, int64_t micro) {
  const auto length = static_cast<size_t>(shape_.sequence_length);
  for (int64_t row = 0; row < shape_.micro_batch; ++row) {
    const int64_t number = step * shape_.samples_per_step() +
                           (micro * shape_.world + shape_.rank) * shape_.micro_batch + row;
    const int64_t at = row * shape_.sequence_length;
    sampler_.Sample(number, {tokens_.data_ptr<int64_t>() + at, length},
                    {targets_.data_ptr<int64_t>() + at, length});
  }
}

}  // namespace thinwire::train
