#include "thinwire/codec/block.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "thinwire/base/checked.h"

namespace thinwire::codec {
namespace {

using kernels::BlockFormat;
using kernels::BlockTerm;
using kernels::CodeType;
using kernels::ScaleChoice;

struct Sizes {
  int64_t elements = 0;
  int64_t code_bytes = 0;
  int64_t scale_bytes = 0;
};

// Where a run lies: its first element, code byte and scale byte.
struct RunAt {
  int64_t element = 0;
  int64_t code = 0;
  int64_t scale = 0;

  void Pass(const BlockFormat& format, int64_t run) {
    element += run;
    code += format.CodeBytes(run);
    scale += 2 * format.Blocks(run);
  }
};

class BlockCodec final : public Codec {
 public:
  BlockCodec(CodeType code, int64_t block, ScaleChoice choice)
      : format_{code, block},
        choice_(choice),
        name_(StrCat(code == CodeType::kInt8 ? "int8/" : "int4/", block,
                     choice == ScaleChoice::kSearched ? "/searched" : "")) {}

  std::string_view name() const override { return name_; }

  int64_t EncodedBytes(Runs runs) const override {
    const Sizes sizes = SizesOf(runs);
    return CheckedAdd(sizes.code_bytes, sizes.scale_bytes, "bytes of a message");
  }

  void Encode(const ExecContext& context, ConstArray in, Runs runs,
              std::span<std::byte> out) const override {
    const Sizes sizes = SizesOf(runs);
    THINWIRE_CHECK(in.size == sizes.elements, in.size, " elements in runs of ", sizes.elements);
    THINWIRE_CHECK(std::cmp_equal(out.size(), sizes.code_bytes + sizes.scale_bytes), out.size(),
                   " bytes");
    RunAt at;
    for (const int64_t run : runs) {
      kernels::Quantize(context, format_, choice_, in.Sub(at.element, run),
                        {out.data() + at.code, out.data() + sizes.code_bytes + at.scale});
      at.Pass(format_, run);
    }
  }

  void Decode(const ExecContext& context, std::span<const std::byte> in, Runs runs,
              Array out) const override {
    const Sizes sizes = SizesOf(runs);
    THINWIRE_CHECK(out.size == sizes.elements, out.size, " elements in runs of ", sizes.elements);
    CheckMessage(in, sizes);
    RunAt at;
    for (const int64_t run : runs) {
      kernels::Dequantize(context, format_,
                          {in.data() + at.code, in.data() + sizes.code_bytes + at.scale},
                          out.Sub(at.element, run));
      at.Pass(format_, run);
    }
  }

  void DecodeSum(const ExecContext& context, std::span<const Term> terms, Runs runs,
                 bool accumulate, std::span<float> out) const override {
    const Sizes sizes = SizesOf(runs);
    THINWIRE_CHECK(std::cmp_equal(out.size(), sizes.elements), out.size(), " elements in runs of ",
                   sizes.elements);
    // Before the first addition, so that a malformed message leaves `out` as it was.
    for (const Term& term : terms) {
      if (term.own.data == nullptr) CheckMessage(term.encoded, sizes);
      THINWIRE_CHECK(term.own.data == nullptr || term.own.size == sizes.elements, term.own.size,
                     " elements in runs of ", sizes.elements);
    }
    // Groups rather than one array, because their number is not bounded and nothing may be
    // allocated here. Accumulating group after group keeps the order of the additions.
    do {
      const auto group = terms.first(std::min(terms.size(), kGroup));
      SumGroup(context, group, sizes, runs, accumulate, out);
      terms = terms.subspan(group.size());
      accumulate = true;
    } while (!terms.empty());
  }

 private:
  static constexpr size_t kGroup = 16;

  Sizes SizesOf(Runs runs) const {
    Sizes sizes;
    for (const int64_t run : runs) {
      THINWIRE_CHECK(run >= 0, "a run of ", run, " elements");
      sizes.elements = CheckedAdd(sizes.elements, run, "elements of a message");
      sizes.code_bytes += format_.CodeBytes(run);  // no more than the elements
      sizes.scale_bytes += 2 * format_.Blocks(run);
    }
    return sizes;
  }

  // A message from a peer, which may have any size.
  void CheckMessage(std::span<const std::byte> in, const Sizes& sizes) const {
    const int64_t bytes = CheckedAdd(sizes.code_bytes, sizes.scale_bytes, "bytes of a message");
    if (!std::cmp_equal(in.size(), bytes)) {
      throw PeerError(StrCat("a message of ", in.size(), " bytes arrived where ", bytes, " bytes (",
                             sizes.elements, " elements in ", name(), ") were expected"));
    }
  }

  void SumGroup(const ExecContext& context, std::span<const Term> terms, const Sizes& sizes,
                Runs runs, bool accumulate, std::span<float> out) const {
    std::array<BlockTerm, kGroup> parts;
    RunAt at;
    for (const int64_t run : runs) {
      std::transform(terms.begin(), terms.end(), parts.begin(), [&](const Term& term) {
        if (term.own.data != nullptr) return BlockTerm{{}, term.own.Sub(at.element, run)};
        const std::byte* data = term.encoded.data();
        return BlockTerm{{data + at.code, data + sizes.code_bytes + at.scale}, {}};
      });
      kernels::DequantizeSum(
          context, format_, std::span(parts).first(terms.size()), accumulate,
          out.subspan(static_cast<size_t>(at.element), static_cast<size_t>(run)));
      at.Pass(format_, run);
    }
  }

  BlockFormat format_;
  ScaleChoice choice_;
  std::string name_;
};

std::shared_ptr<const Codec> Make(CodeType code, int64_t block, std::string_view setting,
                                  ScaleChoice choice) {
  if (block < kernels::kBlockUnit || block > kernels::kLargestBlock ||
      block % kernels::kBlockUnit != 0) {
    throw UsageError(StrCat(setting, " is ", block, ": choose a multiple of ", kernels::kBlockUnit,
                            " from ", kernels::kBlockUnit, " to ", kernels::kLargestBlock));
  }
  return std::make_shared<const BlockCodec>(code, block, choice);
}

}  // namespace

std::shared_ptr<const Codec> BlockInt8(int64_t block, std::string_view setting) {
  return Make(CodeType::kInt8, block, setting, ScaleChoice::kExtreme);
}

std::shared_ptr<const Codec> BlockInt4(int64_t block, std::string_view setting,
                                       ScaleChoice choice) {
  return Make(CodeType::kInt4, block, setting, choice);
}

}  // namespace thinwire::codec
