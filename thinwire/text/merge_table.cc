#include "thinwire/text/merge_table.h"

#include <bit>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/text/byte_level.h"

namespace thinwire::text {
namespace {

void AppendToken(std::string_view token, std::string* bytes) {
  if (!AppendByteLevel(token, bytes)) bytes->append(token);
}

}  // namespace

MergeTable::MergeTable(const Vocabulary& vocabulary, std::span<const std::string_view> merges) {
  if (merges.size() >= kNoMerge) throw UsageError("tokenizer: more than 2^32 merges");
  slots_.resize(std::bit_ceil(merges.size() + merges.size() / 2 + 1));
  std::string bytes;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = merge.find(' ', 1);
    const auto fail = [&](std::string_view what) {
      throw UsageError(StrCat("tokenizer: merge ", rank, " '", merge, "' ", what));
    };
    if (space == std::string_view::npos || space + 1 == merge.size()) fail("is no pair of tokens");
    bytes.clear();
    AppendToken(merge.substr(0, space), &bytes);
    const size_t left_bytes = bytes.size();
    AppendToken(merge.substr(space + 1), &bytes);
    const std::string_view whole = bytes;
    const int32_t left = vocabulary.Find(whole.substr(0, left_bytes));
    const int32_t right = vocabulary.Find(whole.substr(left_bytes));
    const int32_t id = vocabulary.Find(whole);
    if (left == kNoToken || right == kNoToken) fail("joins what is no token");
    if (id == kNoToken) fail("makes what is no token");
    if (vocabulary.IsPlain(id)) Insert({left, right, {static_cast<uint32_t>(rank), id}});
  }
}

void MergeTable::Insert(const Slot& merge) {
  const size_t mask = slots_.size() - 1;
  size_t at = HashOf(merge.left, merge.right) & mask;
  while (slots_[at].left != kNoToken &&
         (slots_[at].left != merge.left || slots_[at].right != merge.right)) {
    at = (at + 1) & mask;
  }
  slots_[at] = merge;
}

}  // namespace thinwire::text
