#include "thinwire/codec/block.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "thinwire/base/checked.h"
#include "thinwire/codec/message_coder.h"
#include "thinwire/kernels/difference.h"
#include "thinwire/kernels/sum.h"

namespace thinwire::codec {
namespace {

using kernels::BlockFormat;
using kernels::BlockTerm;
using kernels::Clip;
using kernels::CodeType;
using kernels::ScaleChoice;
using kernels::ScaleRule;

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

std::string_view NameOf(CodeType code) {
  switch (code) {
    case CodeType::kInt8:
      return "int8";
    case CodeType::kInt4:
      return "int4";
    case CodeType::kInt3:
      return "int3";
    case CodeType::kTernary:
      return "ternary";
  }
  return "unknown";
}

// To two decimals, without zeros at the end.
std::string Decimals(float factor) {
  const int64_t hundredths = std::lround(factor * 100);
  std::string text = StrCat(hundredths / 100, ".", hundredths / 10 % 10, hundredths % 10);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string NameOf(CodeType code, const ScaleRule& rule) {
  if (const ScaleChoice* choice = std::get_if<ScaleChoice>(&rule)) {
    return *choice == ScaleChoice::kSearched ? "/searched" : "";
  }
  const Clip clip = std::get<Clip>(rule);
  const ScaleRule usual = DefaultRule(code);
  if (const Clip* same = std::get_if<Clip>(&usual);
      same != nullptr && same->basis == clip.basis && same->factor == clip.factor) {
    return "";
  }
  return StrCat(clip.basis == Clip::Basis::kMax ? "/max" : "/rms", Decimals(clip.factor));
}

std::string NameOf(const BlockOptions& options) {
  return StrCat(options.rotation ? RotationPrefix(options.rotation->width) : "",
                NameOf(options.format.code), "/", options.format.block,
                NameOf(options.format.code, options.rule), options.coded ? "/coded" : "");
}

class BlockCodec final : public Codec {
 public:
  explicit BlockCodec(const BlockOptions& options)
      : format_(options.format),
        rule_(options.rule),
        rotation_(options.rotation),
        name_(NameOf(options)) {
    if (options.coded) coder_.emplace(format_);
  }

  std::string_view name() const override { return name_; }
  const MessageCoder* coder() const override { return coder_ ? &*coder_ : nullptr; }

  int64_t EncodedBytes(Runs runs) const override {
    const BlockSizes sizes = SizesOf(format_, runs);
    return CheckedAdd(sizes.code_bytes, sizes.scale_bytes, "bytes of a message");
  }

  void Encode(const ExecContext& context, ConstArray in, Runs runs,
              std::span<std::byte> out) const override {
    const BlockSizes sizes = SizesOf(format_, runs);
    THINWIRE_CHECK(in.size == sizes.elements, in.size, " elements in runs of ", sizes.elements);
    THINWIRE_CHECK(std::cmp_equal(out.size(), sizes.code_bytes + sizes.scale_bytes), out.size(),
                   " bytes");
    RunAt at;
    for (const int64_t run : runs) {
      const kernels::MutableBlocks blocks{out.data() + at.code,
                                          out.data() + sizes.code_bytes + at.scale};
      const ConstArray elements = in.Sub(at.element, run);
      if (rotation_) {
        kernels::RotateQuantize(context, *rotation_, {}, format_, rule_, elements, blocks);
      } else {
        kernels::QuantizeBy(context, format_, rule_, elements, blocks);
      }
      at.Pass(format_, run);
    }
  }

  void Decode(const ExecContext& context, std::span<const std::byte> in, Runs runs,
              Array out) const override {
    const BlockSizes sizes = SizesOf(format_, runs);
    THINWIRE_CHECK(out.size == sizes.elements, out.size, " elements in runs of ", sizes.elements);
    CheckMessage(in, sizes);
    RunAt at;
    for (const int64_t run : runs) {
      DecodeRun(context, {in.data() + at.code, in.data() + sizes.code_bytes + at.scale},
                out.Sub(at.element, run));
      at.Pass(format_, run);
    }
  }

  void DecodeAdd(const ExecContext& context, std::span<const std::byte> in, Runs runs,
                 Array sum) const override {
    DecodeTiles(context, in, runs, sum.size, [&](int64_t begin, std::span<const float> decoded) {
      kernels::AddTo(context, decoded, sum.Sub(begin, std::ssize(decoded)));
    });
  }

  void DecodeSubtract(const ExecContext& context, std::span<const std::byte> in, Runs runs,
                      std::span<float> rest) const override {
    const auto subtract = [&](int64_t begin, std::span<const float> decoded) {
      const auto tile = rest.subspan(static_cast<size_t>(begin), decoded.size());
      kernels::Subtract(context, std::span<const float>(tile), decoded, tile);
    };
    DecodeTiles(context, in, runs, std::ssize(rest), subtract);
  }

  void DecodeSum(const ExecContext& context, std::span<const Term> terms, Runs runs,
                 bool accumulate, std::span<float> out) const override {
    const BlockSizes sizes = SizesOf(format_, runs);
    THINWIRE_CHECK(std::cmp_equal(out.size(), sizes.elements), out.size(), " elements in runs of ",
                   sizes.elements);
    // Before the first addition, so that a malformed message leaves `out` as it was.
    for (const Term& term : terms) {
      if (term.own.data == nullptr) CheckMessage(term.encoded, sizes);
      THINWIRE_CHECK(term.own.data == nullptr || term.own.size == sizes.elements, term.own.size,
                     " elements in runs of ", sizes.elements);
    }
    if (rotation_) return SumRotated(context, terms, sizes, runs, accumulate, out);
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

  // A message from a peer, which may have any size.
  void CheckMessage(std::span<const std::byte> in, const BlockSizes& sizes) const {
    const int64_t bytes = CheckedAdd(sizes.code_bytes, sizes.scale_bytes, "bytes of a message");
    if (!std::cmp_equal(in.size(), bytes)) {
      throw PeerError(StrCat("a message of ", in.size(), " bytes arrived where ", bytes, " bytes (",
                             sizes.elements, " elements in ", name(), ") were expected"));
    }
  }

  // Elements that are decoded at a time: blocks and groups of packed codes begin where tiles do.
  int64_t Tile() const {
    return std::max(format_.Unit(), kernels::kLargestBlock / format_.Unit() * format_.Unit());
  }

  // Calls body(first element, values) for all of the message, a tile at a time.
  template <typename Body>
  void DecodeTiles(const ExecContext& context, std::span<const std::byte> in, Runs runs,
                   int64_t size, const Body& body) const {
    const BlockSizes sizes = SizesOf(format_, runs);
    THINWIRE_CHECK(size == sizes.elements, size, " elements in runs of ", sizes.elements);
    CheckMessage(in, sizes);
    std::array<float, 5 * kernels::kLargestBlock> buffer;
    RunAt at;
    for (const int64_t run : runs) {
      for (int64_t begin = 0; begin < run; begin += Tile()) {
        const auto tile =
            std::span(buffer).first(static_cast<size_t>(std::min(Tile(), run - begin)));
        DecodeRun(context, BlocksAt(in, sizes, at, begin), tile);
        body(at.element + begin, tile);
      }
      at.Pass(format_, run);
    }
  }

  // From element `begin` of a run on, a multiple of Tile().
  kernels::ConstBlocks BlocksAt(std::span<const std::byte> message, const BlockSizes& sizes,
                                const RunAt& run, int64_t begin) const {
    return {message.data() + run.code + format_.CodeBytes(begin),
            message.data() + sizes.code_bytes + run.scale + 2 * format_.Blocks(begin)};
  }

  void DecodeRun(const ExecContext& context, kernels::ConstBlocks in, Array out) const {
    if (rotation_) {
      kernels::DequantizeRotateBack(context, *rotation_, {}, format_, in, out);
    } else {
      kernels::Dequantize(context, format_, in, out);
    }
  }

  // Rotates each term back: what a term rounds to does not depend on the others.
  void SumRotated(const ExecContext& context, std::span<const Term> terms, const BlockSizes& sizes,
                  Runs runs, bool accumulate, std::span<float> out) const {
    if (terms.empty() && !accumulate) std::ranges::fill(out, 0.0f);
    std::array<float, 5 * kernels::kLargestBlock> buffer;
    RunAt at;
    for (const int64_t run : runs) {
      for (int64_t begin = 0; begin < run; begin += Tile()) {
        const size_t size = static_cast<size_t>(std::min(Tile(), run - begin));
        const auto sum = out.subspan(static_cast<size_t>(at.element + begin), size);
        for (const Term& term : terms) {
          const bool is_first = !accumulate && &term == &terms.front();
          if (term.own.data != nullptr) {
            AddTerm(context, term.own.Sub(at.element + begin, std::ssize(sum)), is_first, sum);
            continue;
          }
          const std::span<float> decoded = is_first ? sum : std::span(buffer).first(size);
          DecodeRun(context, BlocksAt(term.encoded, sizes, at, begin), decoded);
          if (!is_first) AddTerm(context, std::span<const float>(decoded), false, sum);
        }
      }
      at.Pass(format_, run);
    }
  }

  static void AddTerm(const ExecContext& context, ConstArray term, bool is_first,
                      std::span<float> sum) {
    kernels::SumInOrder(context, std::span(&term, 1), !is_first, sum);
  }

  void SumGroup(const ExecContext& context, std::span<const Term> terms, const BlockSizes& sizes,
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
  ScaleRule rule_;
  std::optional<kernels::Rotation> rotation_;
  std::string name_;
  std::optional<MessageCoder> coder_;
};

}  // namespace

std::string RotationPrefix(int64_t width) { return StrCat("rot", width, "+"); }

BlockSizes SizesOf(const kernels::BlockFormat& format, Runs runs) {
  BlockSizes sizes;
  for (const int64_t run : runs) {
    THINWIRE_CHECK(run >= 0, "a run of ", run, " elements");
    sizes.elements = CheckedAdd(sizes.elements, run, "elements of a message");
    sizes.code_bytes += format.CodeBytes(run);  // no more than the elements
    sizes.scale_bytes += 2 * format.Blocks(run);
  }
  return sizes;
}

ScaleRule DefaultRule(CodeType code) {
  if (code == CodeType::kInt3) return kernels::kInt3Clip;
  if (code == CodeType::kTernary) return kernels::kTernaryClip;
  return ScaleChoice::kExtreme;
}

std::shared_ptr<const Codec> Block(const BlockOptions& options, std::string_view setting) {
  const int64_t block = options.format.block;
  if (block < kernels::kBlockUnit || block > kernels::kLargestBlock ||
      block % kernels::kBlockUnit != 0) {
    throw UsageError(StrCat(setting, " is ", block, ": choose a multiple of ", kernels::kBlockUnit,
                            " from ", kernels::kBlockUnit, " to ", kernels::kLargestBlock));
  }
  if (options.rotation && block % options.rotation->width != 0) {
    throw UsageError(StrCat(setting, " is ", block, ": choose a multiple of ",
                            options.rotation->width, ", which are rotated together"));
  }
  return std::make_shared<const BlockCodec>(options);
}

std::shared_ptr<const Codec> BlockInt8(int64_t block, std::string_view setting) {
  return Block({{CodeType::kInt8, block}, ScaleChoice::kExtreme}, setting);
}

std::shared_ptr<const Codec> BlockInt4(int64_t block, std::string_view setting,
                                       ScaleChoice choice) {
  return Block({{CodeType::kInt4, block}, choice}, setting);
}

}  // namespace thinwire::codec
