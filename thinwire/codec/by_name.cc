#include "thinwire/codec/by_name.h"

#include <charconv>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/codec/block.h"

namespace thinwire::codec {
namespace {

// The text up to the first '/', which is taken off `rest` with it.
std::string_view TakePart(std::string_view& rest) {
  const size_t slash = rest.find('/');
  const std::string_view part = rest.substr(0, slash);
  rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  return part;
}

[[noreturn]] void RefuseName(std::string_view found) {
  throw UsageError(StrCat(found,
                          " is no codec: take fp32, bf16, fp16, int8/BLOCK, int4/BLOCK or "
                          "int4/BLOCK/searched, with a block like 128"));
}

std::shared_ptr<const Codec> Block(std::string_view code, std::string_view text, bool searched,
                                   std::string_view setting) {
  int64_t block = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), block);
  if (error != std::errc() || end != text.data() + text.size() || text.starts_with('0')) {
    throw UsageError(StrCat(setting, " is ", text.empty() ? "missing" : StrCat("\"", text, "\""),
                            ": choose a multiple of ", kernels::kBlockUnit, " from ",
                            kernels::kBlockUnit, " to ", kernels::kLargestBlock, ", e.g. ", code,
                            "/128"));
  }
  if (code == "int8") return BlockInt8(block, setting);
  return BlockInt4(block, setting,
                   searched ? kernels::ScaleChoice::kSearched : kernels::ScaleChoice::kExtreme);
}

}  // namespace

std::shared_ptr<const Codec> ByName(std::string_view name, std::string_view setting) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    // Raw codecs live as long as the program: there is nothing to own.
    if (name == NameOf(dtype)) return {std::shared_ptr<const void>(), &Raw(dtype)};
  }
  const std::string found = StrCat(setting, " = \"", name, "\"");
  std::string_view rest = name;
  const std::string_view code = TakePart(rest);
  if (code == "int8" || code == "int4") {
    const std::string_view block = TakePart(rest);
    if (rest == "searched" && code == "int8") {
      throw UsageError(StrCat(found, ": int8 gains nothing by a search: take int8/", block));
    }
    if (name.ends_with('/') || !(rest.empty() || rest == "searched")) RefuseName(found);
    return Block(code, block, rest == "searched", found + ": the block");
  }
  RefuseName(found);
}

}  // namespace thinwire::codec
