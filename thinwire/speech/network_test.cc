// Encoder and decoder against their definitions in double, sum by sum.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "thinwire/speech/decoder.h"
#include "thinwire/speech/encoder.h"
#include "thinwire/speech/testing.h"

namespace thinwire::speech {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

class Reference {
 public:
  explicit Reference(const RandomModel& model) : model_(model), spec_(model.spec()) {}

  // Of spectra [frames][mels].
  Rows Encode(const Rows& frames) const {
    Rows x = Convolution("enc.conv2", Convolution("enc.conv1", frames, 1), 2);
    Add(x, Matrix("enc.position_embd.weight", spec_.hidden));
    for (int64_t i = 0; i < spec_.encoder_layers; ++i) {
      const std::string block = StrCat("enc.blk.", i, ".");
      const Rows h = Norm(block + "attn_norm", x);
      Add(x, Attention(block + "attn", spec_.encoder_heads, h, h, false));
      FeedForward(block, x);
    }
    return Norm("enc.output_norm", x);
  }

  // Logits after each token.
  Rows Decode(const std::vector<int32_t>& tokens, const Rows& encoded) const {
    const Rows embedding = Matrix("dec.token_embd.weight", spec_.hidden);
    const Rows positions = Matrix("dec.position_embd.weight", spec_.hidden);
    Rows x;
    for (size_t t = 0; t < tokens.size(); ++t) {
      x.push_back(embedding[size_t(tokens[t])]);
      for (size_t d = 0; d < x[t].size(); ++d) x[t][d] += positions[t][d];
    }
    for (int64_t i = 0; i < spec_.decoder_layers; ++i) {
      const std::string block = StrCat("dec.blk.", i, ".");
      const Rows h = Norm(block + "attn_norm", x);
      Add(x, Attention(block + "attn", spec_.decoder_heads, h, h, true));
      Add(x, Attention(block + "cross_attn", spec_.decoder_heads,
                       Norm(block + "cross_attn_norm", x), encoded, false));
      FeedForward(block, x);
    }
    Rows logits;
    for (const Row& h : Norm("dec.output_norm", x)) {
      Row& row = logits.emplace_back();
      for (const Row& e : embedding) {
        row.push_back(std::inner_product(h.begin(), h.end(), e.begin(), 0.0));
      }
    }
    return logits;
  }

 private:
  Rows Matrix(const std::string& name, int64_t columns) const {
    const std::vector<float> values = model_.Values(name);
    Rows rows;
    for (size_t at = 0; at < values.size(); at += size_t(columns)) {
      rows.emplace_back(values.begin() + int64_t(at), values.begin() + int64_t(at) + columns);
    }
    return rows;
  }
  static void Add(Rows& x, const Rows& y) {
    for (size_t r = 0; r < x.size(); ++r) {
      for (size_t d = 0; d < x[r].size(); ++d) x[r][d] += y[r][d];
    }
  }
  Rows Linear(const std::string& name, const Rows& x, bool biased = true) const {
    const Rows weight = Matrix(name + ".weight", int64_t(x[0].size()));
    const std::vector<float> bias =
        biased ? model_.Values(name + ".bias") : std::vector<float>(weight.size());
    Rows y;
    for (const Row& row : x) {
      Row& out = y.emplace_back();
      for (size_t r = 0; r < weight.size(); ++r) {
        out.push_back(
            std::inner_product(row.begin(), row.end(), weight[r].begin(), double{bias[r]}));
      }
    }
    return y;
  }
  static void Gelu(Rows& x) {
    for (Row& row : x) {
      for (double& v : row) v = v / 2 * (1 + std::erf(v / std::sqrt(2.0)));
    }
  }
  // Kernel of three, one row of zeros to each side.
  Rows Convolution(const std::string& name, const Rows& x, int64_t stride) const {
    const auto count = int64_t(x.size());
    Rows stacked;
    for (int64_t t = 0; t < count; t += stride) {
      Row& row = stacked.emplace_back();
      for (int64_t k = t - 1; k <= t + 1; ++k) {
        const Row zeros(x[0].size());
        const Row& part = k < 0 || k >= count ? zeros : x[size_t(k)];
        row.insert(row.end(), part.begin(), part.end());
      }
    }
    Rows y = Linear(name, stacked);
    Gelu(y);
    return y;
  }
  Rows Norm(const std::string& name, const Rows& x) const {
    const std::vector<float> weight = model_.Values(name + ".weight"),
                             bias = model_.Values(name + ".bias");
    Rows y = x;
    for (Row& row : y) {
      const auto n = double(row.size());
      const double mean = std::accumulate(row.begin(), row.end(), 0.0) / n;
      double squares = 0;
      for (const double v : row) squares += (v - mean) * (v - mean);
      for (size_t d = 0; d < row.size(); ++d) {
        row[d] = (row[d] - mean) / std::sqrt(squares / n + 1e-5) * weight[d] + bias[d];
      }
    }
    return y;
  }
  Rows Attention(const std::string& name, int64_t heads, const Rows& x, const Rows& of,
                 bool causal) const {
    const Rows query = Linear(name + "_q", x), key = Linear(name + "_k", of, false),
               value = Linear(name + "_v", of);
    const size_t dim = size_t(spec_.hidden / heads);
    Rows out(x.size(), Row(size_t(spec_.hidden)));
    for (size_t r = 0; r < x.size(); ++r) {
      for (size_t head = 0; head < size_t(heads); ++head) {
        const size_t visible = causal ? r + 1 : of.size();
        Row weights;
        for (size_t p = 0; p < visible; ++p) {
          double score = 0;
          for (size_t d = 0; d < dim; ++d)
            score += query[r][head * dim + d] * key[p][head * dim + d];
          weights.push_back(std::exp(score / std::sqrt(double(dim))));
        }
        const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
        for (size_t p = 0; p < visible; ++p) {
          for (size_t d = 0; d < dim; ++d) {
            out[r][head * dim + d] += weights[p] / total * value[p][head * dim + d];
          }
        }
      }
    }
    return Linear(name + "_output", out);
  }
  void FeedForward(const std::string& block, Rows& x) const {
    Rows h = Linear(block + "ffn_up", Norm(block + "ffn_norm", x));
    Gelu(h);
    Add(x, Linear(block + "ffn_down", h));
  }

  const RandomModel& model_;
  const WhisperSpec spec_;
};

Rows Spectra(const WhisperSpec& spec, uint64_t seed) {
  Rows frames(size_t(spec.frames()), Row(size_t(spec.mels)));
  for (size_t f = 0; f < frames.size(); ++f) {
    for (size_t m = 0; m < frames[f].size(); ++m) {
      frames[f][m] = float(CounterRandom(seed).Normal(f * 1000 + m));
    }
  }
  return frames;
}

struct Network {
  Network(const RandomModel& model, int threads, std::optional<WeightType> type = std::nullopt)
      : team(threads),
        weights(model, type, team),
        encoder(model.spec(), weights, team, plan),
        decoder(model.spec(), weights, team, {.sequences = 3, .running = 3}, plan),
        memory(plan.Take()) {}

  std::span<const float> Encode(const Rows& frames) {
    for (size_t f = 0; f < frames.size(); ++f) {
      std::ranges::copy(frames[f], encoder.input() + f * frames[f].size());
    }
    return encoder.Run();
  }

  ThreadTeam team;
  WhisperWeights weights;
  MemoryPlan plan;
  Encoder encoder;
  Decoder decoder;
  PlannedMemory memory;
};

double LargestDifference(std::span<const float> found, const Rows& expected) {
  double largest = 0;
  size_t at = 0;
  for (const Row& row : expected) {
    for (const double x : row) largest = std::max(largest, std::abs(x - double{found[at++]}));
  }
  return largest;
}

const std::vector<int32_t> kTokens = {41, 3, 17, 17, 39, 51, 0};

TEST(Network, EncoderEqualsItsDefinition) {
  for (const int64_t mels : {8, 10, 32}) {  // rows of the first convolution are filled up, or not
    WhisperSpec spec = TestSpec();
    spec.mels = mels;
    const RandomModel model(spec);
    for (const int threads : {1, 2}) {
      Network network(model, threads);
      for (const uint64_t seed : {1u, 2u}) {  // nothing stays from the window before
        const Rows frames = Spectra(spec, seed);
        const Rows expected = Reference(model).Encode(frames);
        // Of keys and values in fp16: 2^-11 of values up to 4.
        EXPECT_LT(LargestDifference(network.Encode(frames), expected), 4e-3) << mels;
      }
    }
  }
}

TEST(Network, DecoderEqualsItsDefinition) {
  const RandomModel model(TestSpec());
  const Rows frames = Spectra(model.spec(), 3);
  const Rows encoded = Reference(model).Encode(frames);
  const Rows expected = Reference(model).Decode(kTokens, encoded);
  Network network(model, 2);
  network.decoder.Hear(network.Encode(frames));
  // All at once; one by one; and three sequences that part after the second token.
  const Segment all = {.sequence = 0, .tokens = 7};
  network.decoder.Forward(kTokens, {&all, 1});
  const std::vector<int64_t> rows = {2, 6};
  EXPECT_LT(LargestDifference(network.decoder.Logits(rows), {expected[2], expected[6]}), 0.02);
  network.decoder.cache().Truncate(0, 2);
  network.decoder.cache().Share(0, 1, 2);
  for (size_t t = 2; t < kTokens.size(); ++t) {
    const std::vector<int32_t> tokens = {kTokens[t], 9};
    const std::vector<Segment> segments = {{.sequence = 1, .tokens = 1},
                                           {.sequence = 0, .tokens = 1}};
    network.decoder.Forward(tokens, segments);
    const std::vector<int64_t> first = {0};
    EXPECT_LT(LargestDifference(network.decoder.Logits(first), {expected[t]}), 0.02) << t;
  }
}

TEST(Network, OtherTypesOfWeights) {
  const RandomModel model(TestSpec());
  const Rows frames = Spectra(model.spec(), 3);
  const Rows expected = Reference(model).Encode(frames);
  const RandomModel half(TestSpec(), WeightType::kF16);  // the same numbers
  EXPECT_LT(LargestDifference(Network(half, 1).Encode(frames), expected), 4e-3);
  // Codes of 8 bits: about 1/250 of each weight's and activation's block.
  EXPECT_LT(LargestDifference(Network(model, 1, WeightType::kQ8_0).Encode(frames), expected), 0.15);
}

}  // namespace
}  // namespace thinwire::speech
