#include "thinwire/infer/live_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "thinwire/base/counted_malloc.h"
#include "thinwire/base/error.h"
#include "thinwire/infer/gguf_export.h"
#include "thinwire/io/gguf.h"
#include "thinwire/io/testing.h"

namespace thinwire::infer {
namespace {

constexpr const char* kConfig = R"({"model_type": "gpt2", "vocab_size": 257, "n_embd": 64,
    "n_layer": 1, "n_head": 2, "n_positions": 32, "activation_function": "gelu_new"})";

// GPT-2 has all that becomes of a tensor but for the order of rotary embedding: transposed, in
// three parts, exact.
ModelDescription Gpt2() {
  const std::string block = "transformer.h.0.";
  ModelDescription model{.name = "live", .config = kConfig};
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    model.tensors.push_back({name + ".weight", shape});
    if (name.find(".w") == std::string::npos)
      model.tensors.push_back({name + ".bias", {shape.back()}});
  };
  add("transformer.wte", {257, 64});
  add("transformer.wpe", {32, 64});
  add(block + "attn.c_attn", {64, 192});
  add(block + "attn.c_proj", {64, 64});
  add(block + "mlp.c_fc", {64, 256});
  add(block + "mlp.c_proj", {256, 64});
  for (const char* norm : {"ln_1", "ln_2"}) add(block + norm, {64});
  add("transformer.ln_f", {64});
  return model;
}

std::vector<float> ValuesOf(const io::TensorInfo& tensor, float seed) {
  std::vector<float> values(static_cast<size_t>(tensor.bytes) / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(seed * static_cast<float>(i + tensor.name.size()));
  }
  return values;
}

std::vector<float> LogitsOf(Engine& engine) {
  const std::vector<int32_t> tokens = {1, 2, 3};
  engine.scheduler().Forget();
  engine.decoder().Forward(tokens, std::vector<Segment>{{.sequence = 0, .tokens = 3}});
  const auto logits = engine.decoder().Logits(std::vector<int64_t>{2});
  const std::vector<float> copy(logits.begin(), logits.end());
  engine.scheduler().Forget();
  return copy;
}

TEST(LiveModel, IsWhatAFileOfTheSameWouldBeAndTakesNoMoreMemory) {
  const DescribedModel source(io::RealFileSystem(), Gpt2());
  io::TestDirectory directory;
  for (const char* type : {"f32", "f16", "q8_0", "q4_0"}) {
    const ConvertOptions options{.type = type, .tokenizer = "bytes"};
    LiveModel live(io::RealFileSystem(), source, options, {.threads = 2});
    for (const float seed : {0.7f, 1.3f}) {
      const std::string path = directory / "x.gguf";
      GgufExport file(io::RealFileSystem(), path, source, options);
      live.Begin();
      for (const std::string& name : source.tensors()) {
        const std::vector<float> values = ValuesOf(*source.FindTensor(name), seed);
        file.Append(name, std::as_bytes(std::span(values)));
        Counter().count = 0;
        Counter().on = seed == 1.3f;
        live.Set(name, values);
        Counter().on = false;
        EXPECT_EQ(Counter().count, 0) << type << " " << name;
      }
      live.End();
      file.Finish();
      Engine loaded(path, {.threads = 2});
      EXPECT_EQ(LogitsOf(live.engine()), LogitsOf(loaded)) << type;
      EXPECT_EQ(live.engine().weight_bytes(), loaded.weight_bytes());
    }
  }
}

TEST(LiveModel, WhatIsMissingOrNoNumberIsNamed) {
  const DescribedModel source(io::RealFileSystem(), Gpt2());
  LiveModel live(io::RealFileSystem(), source, {.type = "q8_0", .tokenizer = "bytes"},
                 {.threads = 1});
  EXPECT_FALSE(live.Wants("lm_head.weight"));
  live.Begin();
  const std::string name = "transformer.h.0.mlp.c_fc.weight";
  std::vector<float> values = ValuesOf(*source.FindTensor(name), 1);
  values[5] = std::nanf("");
  const std::string nan = io::MessageOf<UsageError>([&] { live.Set(name, values); });
  EXPECT_NE(nan.find("live: tensor \"" + name + "\""), std::string::npos) << nan;
  EXPECT_NE(io::MessageOf<UsageError>([&] {
              live.Set(name, std::span(values).first(9));
            }).find("16384 elements expected, found 9"),
            std::string::npos);
  EXPECT_NE(io::MessageOf<UsageError>([&] { live.End(); }).find("was not set"), std::string::npos);
}

}  // namespace
}  // namespace thinwire::infer
