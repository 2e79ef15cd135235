// Elements as they are: little-endian fp32, bf16 or fp16, one after the other, nothing else.
#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "thinwire/base/checked.h"
#include "thinwire/codec/codec.h"
#include "thinwire/kernels/convert.h"
#include "thinwire/kernels/difference.h"
#include "thinwire/kernels/sum.h"

namespace thinwire::codec {
namespace {

static_assert(std::endian::native == std::endian::little, "messages are little-endian");

int64_t Elements(Runs runs) {
  int64_t elements = 0;
  for (const int64_t run : runs) {
    THINWIRE_CHECK(run >= 0, "a run of ", run, " elements");
    elements = CheckedAdd(elements, run, "elements of a message");
  }
  return elements;
}

class RawCodec final : public Codec {
 public:
  explicit RawCodec(DType dtype) : dtype_(dtype) {}

  std::string_view name() const override { return NameOf(dtype_); }

  int64_t EncodedBytes(Runs runs) const override {
    return CheckedMul(Elements(runs), SizeOf(dtype_), "bytes of a message");
  }

  void Encode(const ExecContext& context, ConstArray in, Runs runs,
              std::span<std::byte> out) const override {
    const int64_t elements = Elements(runs);
    THINWIRE_CHECK(in.size == elements, in.size, " elements in runs of ", elements);
    THINWIRE_CHECK(std::cmp_equal(out.size(), EncodedBytes(runs)), out.size(), " bytes");
    kernels::Convert(context, in, Array(out.data(), dtype_, elements));
  }

  void Decode(const ExecContext& context, std::span<const std::byte> in, Runs runs,
              Array out) const override {
    const ConstArray message = Message(in, runs);
    THINWIRE_CHECK(out.size == message.size, out.size, " elements in runs of ", message.size);
    kernels::Convert(context, message, out);
  }

  void DecodeAdd(const ExecContext& context, std::span<const std::byte> in, Runs runs,
                 Array sum) const override {
    const ConstArray message = Message(in, runs);
    THINWIRE_CHECK(sum.size == message.size, sum.size, " elements in runs of ", message.size);
    kernels::AddTo(context, message, sum);
  }

  void DecodeSubtract(const ExecContext& context, std::span<const std::byte> in, Runs runs,
                      std::span<float> rest) const override {
    const ConstArray message = Message(in, runs);
    kernels::Subtract(context, std::span<const float>(rest), message, rest);
  }

  void DecodeSum(const ExecContext& context, std::span<const Term> terms, Runs runs,
                 bool accumulate, std::span<float> out) const override {
    // Before the first addition, so that a malformed message leaves `out` as it was.
    for (const Term& term : terms) ArrayOf(term, runs);
    // Groups rather than one array, because their number is not bounded and nothing may be
    // allocated here. Accumulating group after group keeps the order of the additions.
    std::array<ConstArray, 16> group;
    do {
      const size_t count = std::min(terms.size(), group.size());
      std::transform(terms.begin(), terms.begin() + static_cast<ptrdiff_t>(count), group.begin(),
                     [&](const Term& term) { return ArrayOf(term, runs); });
      kernels::SumInOrder(context, std::span(group).first(count), accumulate, out);
      terms = terms.subspan(count);
      accumulate = true;
    } while (!terms.empty());
  }

 private:
  // The elements of a message from a peer, which may have any size.
  ConstArray Message(std::span<const std::byte> in, Runs runs) const {
    const int64_t bytes = EncodedBytes(runs);
    if (!std::cmp_equal(in.size(), bytes)) {
      throw PeerError(StrCat("a message of ", in.size(), " bytes arrived where ", bytes, " bytes (",
                             Elements(runs), " elements in ", name(), ") were expected"));
    }
    return {in.data(), dtype_, Elements(runs)};
  }

  ConstArray ArrayOf(const Term& term, Runs runs) const {
    return term.own.data == nullptr ? Message(term.encoded, runs) : term.own;
  }

  DType dtype_;
};

}  // namespace

const Codec& Raw(DType dtype) {
  static const RawCodec kF32(DType::kF32);
  static const RawCodec kBF16(DType::kBF16);
  static const RawCodec kF16(DType::kF16);
  return dtype == DType::kF32 ? kF32 : dtype == DType::kBF16 ? kBF16 : kF16;
}

}  // namespace thinwire::codec
