#include "thinwire/codec/message_coder.h"

#include "thinwire/base/checked.h"
#include "thinwire/codec/block.h"
#include "thinwire/codec/scale_coder.h"
#include "thinwire/kernels/entropy.h"

namespace thinwire::codec {
namespace {

kernels::SymbolModel ModelOf(kernels::CodeType code) {
  switch (code) {
    case kernels::CodeType::kInt8:
      return kernels::SymbolModel::kInt8;
    case kernels::CodeType::kInt4:
      return kernels::SymbolModel::kInt4;
    case kernels::CodeType::kInt3:
      return kernels::SymbolModel::kInt3;
    case kernels::CodeType::kTernary:
      return kernels::SymbolModel::kTernary;
  }
  return kernels::SymbolModel::kInt8;
}

}  // namespace

int64_t MessageCoder::MostBytes(Runs runs) const {
  const BlockSizes sizes = SizesOf(format_, runs);
  return CheckedAdd(kernels::MostCompressedBytes(sizes.code_bytes),
                    MostScaleBytes(sizes.scale_bytes / 2), "bytes of a message");
}

int64_t MessageCoder::Code(const ExecContext& context, std::span<const std::byte> message,
                           Runs runs, std::span<std::byte> out) const {
  const BlockSizes sizes = SizesOf(format_, runs);
  THINWIRE_CHECK(std::ssize(message) == sizes.code_bytes + sizes.scale_bytes, message.size(),
                 " bytes");
  const size_t codes = static_cast<size_t>(sizes.code_bytes);
  const int64_t used = kernels::Compress(context, ModelOf(format_.code), message.first(codes), out);
  return used +
         CompressScales(context, message.subspan(codes), out.subspan(static_cast<size_t>(used)));
}

int64_t MessageCoder::Expand(const ExecContext& context, std::span<const std::byte> in, Runs runs,
                             std::span<std::byte> message) const {
  const BlockSizes sizes = SizesOf(format_, runs);
  THINWIRE_CHECK(std::ssize(message) == sizes.code_bytes + sizes.scale_bytes, message.size(),
                 " bytes");
  const size_t codes = static_cast<size_t>(sizes.code_bytes);
  const int64_t used = kernels::Expand(context, ModelOf(format_.code), in, message.first(codes));
  const int64_t of_scales = used < 0 ? -1
                                     : ExpandScales(context, in.subspan(static_cast<size_t>(used)),
                                                    message.subspan(codes));
  if (of_scales < 0) {
    throw PeerError(StrCat("a coded message of ", in.size(),
                           " bytes is damaged: it does not decode "
                           "to the ",
                           message.size(), " bytes that it stands for"));
  }
  return used + of_scales;
}

}  // namespace thinwire::codec
