#include "thinwire/codec/by_name.h"

#include <charconv>
#include <optional>
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

std::optional<int64_t> ParseBlock(std::string_view text) {
  int64_t block = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), block);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return block;
}

}  // namespace

std::shared_ptr<const Codec> ByName(std::string_view name, std::string_view setting) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    // Raw codecs live as long as the program: there is nothing to own.
    if (name == NameOf(dtype)) return {std::shared_ptr<const void>(), &Raw(dtype)};
  }
  std::string_view rest = name;
  const std::string_view code = TakePart(rest);
  const std::optional<int64_t> block = ParseBlock(TakePart(rest));
  const bool searched = rest == "searched";
  if (block && (rest.empty() || searched)) {
    const auto choice = searched ? kernels::ScaleChoice::kSearched : kernels::ScaleChoice::kExtreme;
    std::shared_ptr<const Codec> found;
    if (code == "int8") found = BlockInt8(*block, setting);  // a search gains it nothing
    if (code == "int4") found = BlockInt4(*block, setting, choice);
    if (found && found->name() == name) return found;
  }
  throw UsageError(StrCat(setting, " = \"", name,
                          "\" is no codec: take fp32, bf16, fp16, int8/BLOCK, int4/BLOCK or "
                          "int4/BLOCK/searched, with a block like 128"));
}

}  // namespace thinwire::codec
