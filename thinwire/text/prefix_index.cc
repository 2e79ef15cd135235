#include "thinwire/text/prefix_index.h"

#include <utility>

namespace thinwire::text {

PrefixIndex::PrefixIndex(const Vocabulary& vocabulary, std::vector<int32_t> ids)
    : vocabulary_(vocabulary), sorted_(std::move(ids)) {
  std::ranges::sort(sorted_, {}, [&](int32_t id) { return std::pair(vocabulary.Bytes(id), id); });
  first_.fill(0);
  for (const int32_t id : sorted_) ++first_[ByteAt(vocabulary.Bytes(id), 0) + size_t{1}];
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
}

}  // namespace thinwire::text
