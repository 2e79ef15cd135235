#include "thinwire/blocks/decode.h"

#include <cstring>

#include "thinwire/blocks/decode_isa.h"
#include "thinwire/kernels/convert.h"

namespace thinwire::blocks {

void Decode(const ExecContext& context, WeightType type, std::span<const std::byte> blocks,
            std::span<float> values) {
  const auto elements = static_cast<int64_t>(values.size());
  const int64_t bytes = WeightBytes(type, elements, "Decode");
  THINWIRE_CHECK(bytes == static_cast<int64_t>(blocks.size()), blocks.size(), " bytes of ",
                 NameOf(type), " for ", elements, " elements");
  switch (type) {
    case WeightType::kF32:
      return kernels::Convert(context, {blocks.data(), DType::kF32, elements}, values);
    case WeightType::kF16:
      return kernels::Convert(context, {blocks.data(), DType::kF16, elements}, values);
    case WeightType::kBF16:
      return kernels::Convert(context, {blocks.data(), DType::kBF16, elements}, values);
    default:
      THINWIRE_PICK(context.isa, DecodeBlocks)
      (type, blocks.data(), elements / BlockElements(type), values.data());
  }
}

}  // namespace thinwire::blocks
