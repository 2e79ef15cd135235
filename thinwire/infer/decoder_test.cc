#include "thinwire/infer/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/infer/loaded_tiny_model.h"

namespace thinwire::infer {
namespace {

std::vector<int32_t> Tokens(size_t count, int seed) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>((i * 17 + i * i * 3 + static_cast<size_t>(seed)) % 50));
  return tokens;
}

// Of logits around 5, where weights and activations are fp32: what types of keys and values cost.
double NearFor(kernels::KvType type) {
  return type == kernels::KvType::kF32 ? 5e-5 : type == kernels::KvType::kF16 ? 2e-2 : 0.3;
}

void ExpectNear(std::span<const float> found, const std::vector<double>& expected,
                const std::string& what, kernels::KvType type = kernels::KvType::kF16) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], NearFor(type)) << what << ", logit " << i;
  }
}

std::vector<TinyShape> Shapes() {
  std::vector<TinyShape> shapes(8);
  shapes[1].architecture = "qwen2";
  shapes[2].architecture = "gpt2";
  shapes[2].kv_heads = 4;
  shapes[3].architecture = "opt";
  shapes[3].kv_heads = 4;
  shapes[4].window = 5;
  shapes[5].rope_scale = 4;
  shapes[6].tied = false;
  shapes[6].rope_factors = true;
  shapes[7].kv_heads = 1;
  shapes[7].vocabulary = 33;  // no multiple of 16
  return shapes;
}

const DecoderLimits kLimits = {
    .batch = 40, .outputs = 3, .cache = {.sequences = 2, .positions = 200}};

DecoderLimits LimitsWith(kernels::KvType type) {
  DecoderLimits limits = kLimits;
  limits.cache.type = type;
  return limits;
}

TEST(Decoder, LogitsEqualThePlainComputationInDouble) {
  for (const kernels::KvType type : {kernels::KvType::kF32, kernels::KvType::kF16}) {
    for (const TinyShape& shape : Shapes()) {
      const TinyModel model(shape);
      auto tokens = Tokens(37, 1);
      for (int32_t& token : tokens) token %= static_cast<int32_t>(shape.vocabulary);
      LoadedTinyModel decoder(shape, LimitsWith(type), 2);
      decoder->Forward(tokens, std::array{Segment{0, 37}});
      const std::array<int64_t, 3> rows = {36, 0, 20};
      const std::span<const float> logits = decoder->Logits(rows);
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto vocabulary = static_cast<size_t>(shape.vocabulary);
        const std::vector<int32_t> seen(tokens.begin(), tokens.begin() + rows[i] + 1);
        ExpectNear(logits.subspan(i * vocabulary, vocabulary), model.Logits(seen),
                   StrCat(shape.architecture, ", row ", rows[i]), type);
      }
    }
  }
}

// However the tokens come: one by one, in pieces, beside another sequence, or after others were
// taken back.
class DecoderWith : public testing::TestWithParam<kernels::KvType> {};

TEST_P(DecoderWith, TheCacheMakesNoDifference) {
  TinyShape shape;
  shape.heads = 2;  // of 32
  shape.kv_heads = 1;
  const TinyModel model(shape);
  LoadedTinyModel decoder(shape, LimitsWith(GetParam()), 1);
  const auto a = Tokens(70, 2), b = Tokens(9, 3);
  const auto expect = [&](int64_t row, const std::vector<int32_t>& tokens, size_t count) {
    const auto logits = decoder->Logits(std::array{row});
    ExpectNear(logits,
               model.Logits({tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(count)}),
               StrCat(count), GetParam());
  };
  const auto part = [](const std::vector<int32_t>& tokens, size_t begin, size_t end) {
    return std::vector<int32_t>(tokens.begin() + static_cast<ptrdiff_t>(begin),
                                tokens.begin() + static_cast<ptrdiff_t>(end));
  };
  decoder->Forward(part(a, 0, 33), std::array{Segment{0, 33}});
  expect(32, a, 33);
  for (size_t i = 33; i < 36; ++i) {
    decoder->Forward(part(a, i, i + 1), std::array{Segment{0, 1}});
    expect(0, a, i + 1);
  }
  std::vector<int32_t> both = part(b, 0, 5);
  both.insert(both.end(), a.begin() + 36, a.begin() + 70);
  decoder->Forward(both, std::array{Segment{1, 5}, Segment{0, 34}});
  expect(4, b, 5);
  expect(38, a, 70);
  decoder->cache().Truncate(0, 10);
  decoder->Forward(part(a, 10, 20), std::array{Segment{0, 10}});
  expect(9, a, 20);
  decoder->cache().Truncate(1, 0);
  decoder->cache().Share(0, 1, 15);
  decoder->Forward(part(a, 15, 18), std::array{Segment{1, 3}});
  expect(2, a, 18);
}

INSTANTIATE_TEST_SUITE_P(Types, DecoderWith,
                         testing::Values(kernels::KvType::kF32, kernels::KvType::kF16,
                                         kernels::KvType::kQ8_0),
                         [](const auto& of) { return std::string(kernels::NameOf(of.param)); });

TEST(Decoder, HeadsThatQ8_0CannotKeepAreRefused) {
  EXPECT_THROW(LoadedTinyModel(TinyShape{}, LimitsWith(kernels::KvType::kQ8_0), 1), UsageError);
}

TEST(Decoder, WhatDoesNotFitIsRefusedAndChangesNothing) {
  TinyShape shape;
  shape.architecture = "gpt2";
  shape.kv_heads = 4;
  shape.context = 64;
  LoadedTinyModel decoder(
      shape, {.batch = 80, .outputs = 1, .cache = {.sequences = 2, .positions = 64}}, 1);
  const auto run = [&](const std::vector<int32_t>& tokens, std::vector<Segment> segments) {
    decoder->Forward(tokens, segments);
  };
  EXPECT_THROW(run({50}, {{0, 1}}), UsageError);
  EXPECT_THROW(run({-1}, {{0, 1}}), UsageError);
  EXPECT_THROW(run(Tokens(65, 0), {{0, 65}}), UsageError);           // learned positions
  EXPECT_THROW(run(Tokens(80, 0), {{0, 40}, {1, 40}}), UsageError);  // room in the cache
  EXPECT_EQ(decoder->cache().Length(0), 0);
  EXPECT_EQ(decoder->cache().free_pages(), 2);
  EXPECT_NO_THROW(run(Tokens(64, 0), {{0, 64}}));
  EXPECT_EQ(decoder->Logits({}).size(), 0u);
}

}  // namespace
}  // namespace thinwire::infer
