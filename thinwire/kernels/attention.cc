#include "thinwire/kernels/attention.h"

#include "thinwire/base/checked.h"
#include "thinwire/kernels/attention_isa.h"

namespace thinwire::kernels {
namespace {

int64_t HeadElements(const HeadsShape& heads) { return 2 * kPagePositions * PaddedDim(heads.dim); }

HeadPages PagesOf(const HeadsShape& heads, const CachedSequence& sequence, int64_t kv_head) {
  THINWIRE_CHECK(heads.dim > 0 && kv_head >= 0 && kv_head < heads.kv_heads, "head ", kv_head,
                 " of ", heads.kv_heads, " x ", heads.dim);
  return {.first_page = sequence.layer + kv_head * HeadElements(heads),
          .page_elements = PageElements(heads),
          .pages = sequence.pages.data(),
          .dim = heads.dim};
}

void CheckPages(const CachedSequence& sequence, int64_t first, int64_t tokens) {
  const int64_t room = static_cast<int64_t>(sequence.pages.size()) * kPagePositions;
  THINWIRE_CHECK(first >= 0 && tokens >= 0 && first <= room - tokens, "positions ", first, " + ",
                 tokens, " in pages for ", room);
}

}  // namespace

int64_t PageElements(const HeadsShape& heads) {
  return CheckedMul(heads.kv_heads, HeadElements(heads), "a page of keys and values");
}

void StoreKeysValues(const ExecContext& context, const HeadsShape& heads,
                     const CachedSequence& sequence, int64_t first, int64_t tokens,
                     const float* keys, const float* values, int64_t stride) {
  CheckPages(sequence, first, tokens);
  const auto store = THINWIRE_PICK(context.isa, StoreHead);
  for (int64_t head = 0; head < heads.kv_heads; ++head) {
    const int64_t at = head * heads.dim;
    store(PagesOf(heads, sequence, head), first, tokens, keys + at, values + at, stride);
  }
}

int64_t AttentionScratch(const HeadsShape& heads) {
  return kAttentionRows * (2 * PaddedDim(heads.dim) + kPagePositions);
}

void Attend(const ExecContext& context, const HeadsShape& heads, const CachedSequence& sequence,
            int64_t kv_head, const AttentionQueries& queries, std::span<float> scratch) {
  if (queries.visible > 0) {
    CheckPages(sequence, 0, queries.visible);
  } else {
    CheckPages(sequence, queries.first, queries.tokens);
  }
  THINWIRE_CHECK(static_cast<int64_t>(scratch.size()) >= AttentionScratch(heads), scratch.size());
  THINWIRE_CHECK(queries.group >= 1 && queries.window >= 0, queries.group, " ", queries.window);
  THINWIRE_PICK(context.isa, AttendHead)
  (PagesOf(heads, sequence, kv_head), queries, scratch.data());
}

}  // namespace thinwire::kernels
