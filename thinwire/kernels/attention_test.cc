#include "thinwire/kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"

namespace thinwire::kernels {
namespace {

struct Case {
  HeadsShape heads;
  int64_t group = 1;
  int64_t first = 0;  // tokens stored before
  int64_t tokens = 1;
  int64_t window = 0;
  int64_t visible = 0;
};

// What q8_0 keeps of a number beside its neighbours, by attention.h.
void KeepCodes(std::vector<float>& x) {
  for (size_t block = 0; block < x.size(); block += 32) {
    const std::span<float> of_block = std::span(x).subspan(block, 32);
    float largest = 0;
    for (const float number : of_block) largest = std::max(largest, std::abs(number));
    const float scale = ToFloat(ToFP16(largest / 127));
    for (float& number : of_block) {
      const float kept = std::clamp(std::nearbyint(number * (1 / scale)), -127.0f, 127.0f) * scale;
      EXPECT_NEAR(kept, number, largest / 254 * (1 + 0x1p-9f) + 0x1p-17f);
      number = kept;
    }
  }
}

// A cache of one layer whose pages stand in it in reverse order, full of NaN but for what is
// stored.
class Attention {
 public:
  explicit Attention(const Case& c) : c_(c), positions_(c.first + c.tokens) {
    const int64_t pages = (positions_ + kPagePositions - 1) / kPagePositions;
    order_.resize(static_cast<size_t>(pages));
    std::iota(order_.rbegin(), order_.rend(), 0);
    cache_.assign(static_cast<size_t>(pages * PageBytes(c.heads)), std::byte{0xff});
    const int64_t kv = c.heads.kv_heads * c.heads.dim;
    keys_ = Random(1, positions_ * kv);
    values_ = Random(2, positions_ * kv);
    queries_ = Random(3, c.tokens * kv * c.group);
    stored_keys_ = keys_;
    stored_values_ = values_;
    for (std::vector<float>* each : {&keys_, &values_}) {
      if (c.heads.type == KvType::kQ8_0) KeepCodes(*each);
      if (c.heads.type != KvType::kF16) continue;
      for (float& x : *each) x = ToFloat(ToFP16(x));
    }
  }

  std::vector<float> Result(Isa isa) {
    const ExecContext context{isa};
    const int64_t dim = c_.heads.dim, kv = c_.heads.kv_heads * dim, stride = kv * c_.group;
    const CachedSequence sequence = {cache_.data(), order_};
    // As a decoder does: what came before, then this pass.
    const float *const keys = stored_keys_.data(), *const values = stored_values_.data();
    StoreKeysValues(context, c_.heads, sequence, 0, c_.first, keys, values, kv);
    StoreKeysValues(context, c_.heads, sequence, c_.first, c_.tokens, keys + c_.first * kv,
                    values + c_.first * kv, kv);
    std::vector<float> out(queries_.size());
    std::vector<float> scratch(static_cast<size_t>(AttentionScratch(c_.heads)));
    for (int64_t head = 0; head < c_.heads.kv_heads; ++head) {
      const int64_t at = head * c_.group * dim;
      Attend(context, c_.heads, sequence, head,
             {.queries = queries_.data() + at,
              .out = out.data() + at,
              .stride = stride,
              .tokens = c_.tokens,
              .first = c_.first,
              .group = c_.group,
              .window = c_.window,
              .visible = c_.visible,
              .scale = kScale},
             scratch);
    }
    return out;
  }

  // In double, straight from the definition.
  std::vector<double> Expected() const {
    const int64_t dim = c_.heads.dim, kv = c_.heads.kv_heads * dim, stride = kv * c_.group;
    std::vector<double> out(queries_.size());
    for (int64_t t = 0; t < c_.tokens; ++t) {
      const int64_t visible = c_.visible > 0 ? c_.visible : c_.first + t + 1;
      const int64_t from = c_.window > 0 ? std::max<int64_t>(0, visible - c_.window) : 0;
      for (int64_t h = 0; h < c_.heads.kv_heads * c_.group; ++h) {
        const int64_t query = t * stride + h * dim, head = h / c_.group * dim;
        std::vector<double> weights;
        double total = 0;
        for (int64_t p = from; p < visible; ++p) {
          double score = 0;
          for (int64_t d = 0; d < dim; ++d)
            score += At(queries_, query + d) * At(keys_, p * kv + head + d);
          weights.push_back(std::exp(score * kScale));
          total += weights.back();
        }
        for (int64_t p = from; p < visible; ++p) {
          const double weight = weights[static_cast<size_t>(p - from)] / total;
          for (int64_t d = 0; d < dim; ++d) {
            out[static_cast<size_t>(query + d)] += weight * At(values_, p * kv + head + d);
          }
        }
      }
    }
    return out;
  }

 private:
  static constexpr float kScale = 0.25f;

  static double At(const std::vector<float>& v, int64_t i) { return v[static_cast<size_t>(i)]; }
  static std::vector<float> Random(uint64_t seed, int64_t size) {
    std::vector<float> v(static_cast<size_t>(size));
    for (size_t i = 0; i < v.size(); ++i) {
      v[i] = 4 * static_cast<float>(CounterRandom(seed).Uniform(i)) - 2;
    }
    return v;
  }

  const Case c_;
  const int64_t positions_;
  std::vector<int32_t> order_;
  std::vector<std::byte> cache_;
  std::vector<float> stored_keys_, stored_values_, queries_;
  std::vector<float> keys_, values_;  // what is kept of them
};

TEST(Attention, EqualsItsDefinitionOnEveryInstructionSet) {
  for (const Case& c : {
           Case{.heads = {1, 64}},
           Case{.heads = {3, 64}, .group = 3, .first = 0, .tokens = 40},
           Case{.heads = {3, 64}, .group = 3, .first = 31, .tokens = 1},
           Case{.heads = {2, 128}, .group = 1, .first = 100, .tokens = 7},
           Case{.heads = {1, 80}, .group = 2, .first = 5, .tokens = 33},
           Case{.heads = {2, 8}, .group = 5, .first = 63, .tokens = 2},
           Case{.heads = {1, 17}, .group = 1, .first = 1, .tokens = 66},
           Case{.heads = {1, 64}, .group = 2, .first = 90, .tokens = 50, .window = 37},
           Case{.heads = {1, 64}, .group = 1, .first = 0, .tokens = 70, .window = 1},
           Case{.heads = {3, 64}, .tokens = 70, .visible = 70},
           Case{.heads = {2, 24}, .first = 40, .tokens = 5, .visible = 33},
           Case{.heads = {3, 64, KvType::kF32}, .group = 3, .first = 0, .tokens = 40},
           Case{.heads = {1, 17, KvType::kF32}, .group = 1, .first = 1, .tokens = 66},
           Case{.heads = {2, 80, KvType::kF32}, .group = 7, .first = 70, .window = 37},
           Case{.heads = {3, 64, KvType::kQ8_0}, .group = 3, .first = 0, .tokens = 40},
           Case{.heads = {2, 32, KvType::kQ8_0}, .group = 4, .first = 31, .tokens = 2},
           Case{.heads = {1, 96, KvType::kQ8_0}, .group = 1, .first = 5, .tokens = 66},
       }) {
    const std::vector<double> expected = Attention(c).Expected();
    for (const Isa isa : SupportedIsas()) {
      const std::vector<float> found = Attention(c).Result(isa);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(found[i], expected[i], 1e-5)
            << NameOf(isa) << ", " << NameOf(c.heads.type) << ", dim " << c.heads.dim << ", first "
            << c.first << ", at " << i;
      }
    }
  }
}

TEST(Attention, PositionsBeyondThePagesAreRefused) {
  const HeadsShape heads = {1, 16};
  std::vector<std::byte> cache(static_cast<size_t>(PageBytes(heads)));
  const std::vector<int32_t> pages = {0};
  std::vector<float> row(16);
  EXPECT_THROW(StoreKeysValues(ExecContext{}, heads, {cache.data(), pages}, kPagePositions, 1,
                               row.data(), row.data(), 16),
               InternalError);
}

// Where fp16 has no scale that is small enough, codes stay within their range; zeros are zeros.
TEST(Attention, TinyKeysAndValuesInCodesAreWithinTheirBound) {
  const HeadsShape heads = {1, 32, KvType::kQ8_0};
  for (const float size : {0.0f, 1e-30f, 3e-6f, 6e-6f, 2e-3f}) {
    std::vector<float> row(32, -size), out(32),
        scratch(static_cast<size_t>(AttentionScratch(heads)));
    row[3] = size;
    for (const Isa isa : SupportedIsas()) {
      std::vector<std::byte> cache(static_cast<size_t>(PageBytes(heads)), std::byte{0xff});
      const std::vector<int32_t> pages = {0};
      StoreKeysValues({isa}, heads, {cache.data(), pages}, 0, 1, row.data(), row.data(), 32);
      Attend({isa}, heads, {cache.data(), pages}, 0,
             {.queries = row.data(), .out = out.data(), .stride = 32, .tokens = 1}, scratch);
      for (size_t i = 0; i < 32; ++i) {
        EXPECT_NEAR(out[i], row[i], size / 254 * (1 + 0x1p-9f) + 0x1p-17f) << NameOf(isa);
      }
    }
  }
}

TEST(Attention, TypesOfKeysAndValuesHaveNamesAndSizes) {
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8_0}) {
    EXPECT_EQ(KvTypeNamed(NameOf(type)), type);
  }
  EXPECT_EQ(KvTypeNamed("Q8_0"), KvType::kQ8_0);
  EXPECT_THROW(KvTypeNamed("q4_0"), UsageError);
  EXPECT_EQ(PageBytes({3, 64, KvType::kF32}), 3 * 2 * 32 * 64 * 4);
  EXPECT_EQ(PageBytes({3, 64, KvType::kF16}), 3 * 2 * 32 * 64 * 2);
  EXPECT_EQ(PageBytes({3, 64, KvType::kQ8_0}), 3 * 2 * 32 * (64 + 2 * 2));
  EXPECT_THROW(PageBytes({3, 80, KvType::kQ8_0}), UsageError);
}

}  // namespace
}  // namespace thinwire::kernels
