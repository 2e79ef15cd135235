#include "thinwire/kernels/attention.h"

#include <algorithm>

#include "thinwire/base/checked.h"
#include "thinwire/kernels/attention_isa.h"

namespace thinwire::kernels {
namespace {

int64_t BytesOfElements(KvType type, int64_t elements) {
  switch (type) {
    case KvType::kF32:
      return elements * 4;
    case KvType::kF16:
      return elements * 2;
    case KvType::kQ8_0:
      break;
  }
  return elements + elements / kScaled * 2;
}

int64_t HeadBytes(const HeadsShape& heads) {
  return BytesOfElements(heads.type, 2 * kPagePositions * PaddedDim(heads.dim));
}

HeadPages PagesOf(const HeadsShape& heads, const CachedSequence& sequence, int64_t kv_head) {
  THINWIRE_CHECK(heads.dim > 0 && kv_head >= 0 && kv_head < heads.kv_heads, "head ", kv_head,
                 " of ", heads.kv_heads, " x ", heads.dim);
  return {.first_page = sequence.layer + kv_head * HeadBytes(heads),
          .page_bytes = PageBytes(heads),
          .pages = sequence.pages.data(),
          .dim = heads.dim,
          .type = heads.type};
}

void CheckPages(const CachedSequence& sequence, int64_t first, int64_t tokens) {
  const int64_t room = static_cast<int64_t>(sequence.pages.size()) * kPagePositions;
  THINWIRE_CHECK(first >= 0 && tokens >= 0 && first <= room - tokens, "positions ", first, " + ",
                 tokens, " in pages for ", room);
}

}  // namespace

std::string_view NameOf(KvType type) {
  switch (type) {
    case KvType::kF32:
      return "f32";
    case KvType::kF16:
      return "f16";
    case KvType::kQ8_0:
      break;
  }
  return "q8_0";
}

KvType KvTypeNamed(std::string_view name) {
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8_0}) {
    const auto same = [](char a, char b) {
      return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b);
    };
    if (std::ranges::equal(NameOf(type), name, same)) return type;
  }
  throw UsageError(StrCat("type of keys and values: \"", name, "\"; f32, f16 and q8_0 are known"));
}

int64_t PageBytes(const HeadsShape& heads) {
  if (heads.type == KvType::kQ8_0 && heads.dim % kScaled != 0) {
    throw UsageError(StrCat("keys and values in q8_0: heads of ", heads.dim,
                            " elements are no multiple of 32; use f16"));
  }
  return CheckedMul(heads.kv_heads, HeadBytes(heads), "a page of keys and values");
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
  const int64_t dim = PaddedDim(heads.dim);
  const int64_t page = heads.type == KvType::kQ8_0 ? 2 * kPagePositions * dim : 0;
  return kAttentionRows * (2 * dim + kPagePositions) + page;
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
