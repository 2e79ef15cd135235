#include "thinwire/codec/by_name.h"

#include <charconv>
#include <optional>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/codec/block.h"

namespace thinwire::codec {
namespace {

using kernels::Clip;
using kernels::CodeType;

// The text up to the first slash, which is taken off `rest` with it.
std::string_view TakePart(std::string_view& rest) {
  const size_t at = rest.find('/');
  const std::string_view part = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return part;
}

[[noreturn]] void RefuseName(std::string_view found) {
  throw UsageError(StrCat(found,
                          " is no codec: take fp32, bf16, fp16, int8/BLOCK, int4/BLOCK, int3/BLOCK "
                          "or ternary/BLOCK, with a block like 128"));
}

std::optional<CodeType> CodeNamed(std::string_view name) {
  if (name == "int8") return CodeType::kInt8;
  if (name == "int4") return CodeType::kInt4;
  if (name == "int3") return CodeType::kInt3;
  if (name == "ternary") return CodeType::kTernary;
  return std::nullopt;
}

// What follows the block, which is there.
kernels::ScaleRule RuleNamed(CodeType code, std::string_view name, std::string_view block,
                             std::string_view found) {
  if (code == CodeType::kInt8) {
    if (name != "searched") RefuseName(found);
    throw UsageError(StrCat(found, ": int8 gains nothing by a search: take int8/", block));
  }
  if (name == "searched" && code == CodeType::kInt4) return kernels::ScaleChoice::kSearched;
  const bool is_rms = name.starts_with("rms");
  if (!is_rms && !name.starts_with("max")) RefuseName(found);
  name.remove_prefix(3);
  float factor = 0;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), factor, std::chars_format::fixed);
  const bool read = error == std::errc() && end == name.data() + name.size();
  if (!read || !(factor >= 0.01f && factor <= kernels::kLargestClip)) {
    throw UsageError(StrCat(found, ": the factor of the scale is \"", name,
                            "\": choose a number from 0.01 to ", kernels::kLargestClip));
  }
  return Clip{is_rms ? Clip::Basis::kRms : Clip::Basis::kMax, factor};
}

int64_t BlockNamed(std::string_view code, std::string_view text, std::string_view setting) {
  int64_t block = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), block);
  if (error != std::errc() || end != text.data() + text.size() || text.starts_with('0')) {
    throw UsageError(StrCat(setting, " is ", text.empty() ? "missing" : StrCat("\"", text, "\""),
                            ": choose a multiple of ", kernels::kBlockUnit, " from ",
                            kernels::kBlockUnit, " to ", kernels::kLargestBlock, ", e.g. ", code,
                            "/128"));
  }
  return block;
}

}  // namespace

int64_t TakeRotation(std::string_view& name) {
  for (const int64_t width : {32, 128}) {
    const std::string prefix = RotationPrefix(width);
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    return width;
  }
  return 0;
}

std::shared_ptr<const Codec> ByName(std::string_view name, std::string_view setting) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    // Raw codecs live as long as the program: there is nothing to own.
    if (name == NameOf(dtype)) return {std::shared_ptr<const void>(), &Raw(dtype)};
  }
  const std::string found = StrCat(setting, " = \"", name, "\"");
  std::string_view rest = name;
  BlockOptions options;
  constexpr std::string_view kCoded = "/coded";
  options.coded = rest.ends_with(kCoded);
  if (options.coded) rest.remove_suffix(kCoded.size());
  if (const int64_t width = TakeRotation(rest); width != 0) options.rotation = {width, 0};
  const std::string_view code_name = TakePart(rest);
  const std::optional<CodeType> code = CodeNamed(code_name);
  if (!code || name.ends_with('/')) RefuseName(found);
  const std::string_view block = TakePart(rest);
  options.rule = rest.empty() ? DefaultRule(*code) : RuleNamed(*code, rest, block, found);
  const std::string of_block = found + ": the block";
  options.format = {*code, BlockNamed(code_name, block, of_block)};
  const auto codec = Block(options, of_block);
  if (codec->name() != name) {  // zeros too many, more than two decimals, or what is the default
    throw UsageError(StrCat(found, ": write it as ", codec->name()));
  }
  return codec;
}

}  // namespace thinwire::codec
