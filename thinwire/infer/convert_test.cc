#include "thinwire/infer/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "thinwire/base/dtype.h"
#include "thinwire/base/error.h"
#include "thinwire/io/gguf.h"
#include "thinwire/io/safetensors.h"
#include "thinwire/io/testing.h"

namespace thinwire::infer {
namespace {

using Json = nlohmann::json;
using io::MessageOf;

struct Source {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// A directory with a model; a test changes what it is about and converts.
class Convert : public testing::Test {
 protected:
  // Elements count on from 0 in each tensor.
  void Add(const std::string& name, std::vector<int64_t> shape) {
    int64_t elements = 1;
    for (const int64_t extent : shape) elements *= extent;
    std::vector<float> values(static_cast<size_t>(elements));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    tensors_[name] = {std::move(shape), std::move(values)};
  }

  void Llama() {
    config_ = Json::parse(R"({"model_type": "llama", "vocab_size": 6, "hidden_size": 8,
      "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2,
      "num_key_value_heads": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
      "rope_theta": 5000, "bos_token_id": 4, "eos_token_id": [5, 1]})");
    Add("model.embed_tokens.weight", {6, 8});
    Add("model.norm.weight", {8});
    Add("lm_head.weight", {6, 8});
    const std::string layer = "model.layers.0.";
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
      Add(layer + norm + ".weight", {8});
    }
    Add(layer + "self_attn.q_proj.weight", {8, 8});
    Add(layer + "self_attn.k_proj.weight", {4, 8});
    Add(layer + "self_attn.v_proj.weight", {4, 8});
    Add(layer + "self_attn.o_proj.weight", {8, 8});
    Add(layer + "mlp.gate_proj.weight", {12, 8});
    Add(layer + "mlp.up_proj.weight", {12, 8});
    Add(layer + "mlp.down_proj.weight", {8, 12});
  }

  void Write() {
    std::ofstream(dir_ / "config.json") << config_;
    if (!tokenizer_.is_null()) std::ofstream(dir_ / "tokenizer.json") << tokenizer_;
    if (!settings_.is_null()) std::ofstream(dir_ / "tokenizer_config.json") << settings_;
    std::vector<io::TensorToWrite> list;
    for (const auto& [name, source] : tensors_) {
      list.push_back(
          {name, io::TensorType::kF32, source.shape, std::as_bytes(std::span(source.values))});
    }
    io::WriteSafetensors(io::RealFileSystem(), dir_ / "model.safetensors", list, {});
  }

  Conversion Run(const ConvertOptions& options = {}) {
    Write();
    return ConvertHuggingFace(io::RealFileSystem(), dir_.path(), dir_ / "x.gguf", options);
  }

  // The message without the directory.
  std::string Error(const ConvertOptions& options = {}) {
    std::string message = MessageOf<UsageError>([&] { Run(options); });
    for (size_t at; (at = message.find(dir_.path())) != std::string::npos;) {
      message.erase(at, dir_.path().size());
    }
    return message;
  }

  io::TestDirectory dir_;
  Json config_;
  Json settings_;
  Json tokenizer_ = Json::parse(R"({
    "added_tokens": [{"id": 4, "content": "<s>", "special": true},
                     {"id": 3, "content": "user", "special": false}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})");
  std::map<std::string, Source> tensors_;
};

std::vector<float> Floats(const io::GgufTensor& tensor) {
  return io::GgufArray<float>(tensor.data).ToVector();
}

TEST_F(Convert, LlamaMetadata) {
  Llama();
  const Conversion done = Run();
  EXPECT_EQ(done.architecture, "llama");
  EXPECT_EQ(done.tensors, 12);
  EXPECT_EQ(done.tokens, 6);
  const io::GgufFile file(dir_ / "x.gguf");
  EXPECT_EQ(done.bytes, file.bytes());
  EXPECT_EQ(file.Get<std::string_view>("general.architecture"), "llama");
  EXPECT_EQ(file.Get<uint32_t>("general.file_type"), 0u);
  for (const auto& [key, value] : std::map<std::string, uint32_t>{{"block_count", 1},
                                                                  {"context_length", 64},
                                                                  {"embedding_length", 8},
                                                                  {"feed_forward_length", 12},
                                                                  {"attention.head_count", 2},
                                                                  {"attention.head_count_kv", 1},
                                                                  {"rope.dimension_count", 4},
                                                                  {"vocab_size", 6}}) {
    EXPECT_EQ(file.Get<uint32_t>("llama." + key), value) << key;
  }
  EXPECT_EQ(file.Get<float>("llama.rope.freq_base"), 5000);
  EXPECT_EQ(file.Get<float>("llama.attention.layer_norm_rms_epsilon"), 1e-5f);
}

TEST_F(Convert, TurnedRowsBecomeNeighbours) {
  Llama();
  Add("model.layers.0.self_attn.q_proj.bias", {8});
  Run();
  const io::GgufFile file(dir_ / "x.gguf");
  EXPECT_EQ(Floats(file.Tensor("blk.0.attn_q.bias", {8})),
            (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  const std::vector<float> key = Floats(file.Tensor("blk.0.attn_k.weight", {4, 8}));
  EXPECT_EQ(key[8], 16);  // row 1 was row 2
  EXPECT_EQ(key[16], 8);
  EXPECT_EQ(Floats(file.Tensor("blk.0.attn_v.weight", {4, 8}))[8], 8);
  EXPECT_EQ(Floats(file.Tensor("output.weight", {6, 8}))[9], 9);
  EXPECT_EQ(file.tensors().size(), 13u);
}

TEST_F(Convert, TypesOfMatrices) {
  Llama();
  for (const WeightType type : {WeightType::kF16, WeightType::kBF16, WeightType::kF32}) {
    Run({.type = std::string(NameOf(type))});
    const io::GgufFile file(dir_ / "x.gguf");
    EXPECT_EQ(file.Tensor("blk.0.ffn_up.weight", {12, 8}).type, type);
    EXPECT_EQ(file.Tensor("blk.0.ffn_norm.weight", {8}).type, WeightType::kF32);
  }
  Run({.type = "F16"});
  const io::GgufFile file(dir_ / "x.gguf");
  const auto half = io::GgufArray<FP16>(file.Tensor("blk.0.ffn_up.weight").data)[95];
  EXPECT_EQ(ToFloat(half), 95);
  tensors_["lm_head.weight"].values[5] = 1e5f;
  EXPECT_EQ(
      Error({.type = "F16"}),
      "/model.safetensors: tensor \"lm_head.weight\": 100000 does not fit F16; choose BF16 or "
      "F32");
  EXPECT_EQ(Error({.type = "BF16"}), "no error");
}

TEST_F(Convert, TiedHeads) {
  Llama();
  config_["tie_word_embeddings"] = true;
  Run();
  EXPECT_EQ(io::GgufFile(dir_ / "x.gguf").FindTensor("output.weight"), nullptr);
  tensors_.erase("lm_head.weight");
  EXPECT_EQ(Error(), "no error");
  config_["tie_word_embeddings"] = false;
  EXPECT_EQ(Error(), ": tensor \"lm_head.weight\" is missing");
}

TEST_F(Convert, Rotations) {
  Llama();
  config_["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};
  Run();
  {
    const io::GgufFile file(dir_ / "x.gguf");
    EXPECT_EQ(file.Get<std::string_view>("llama.rope.scaling.type"), "linear");
    EXPECT_EQ(file.Get<float>("llama.rope.scaling.factor"), 4);
  }
  // Waves: 2 pi, below 64 / 4, as they are; 2 pi 5000^(1/2) = 444, above 64, divided.
  config_["rope_scaling"] = {{"rope_type", "llama3"},
                             {"factor", 8},
                             {"low_freq_factor", 1},
                             {"high_freq_factor", 4},
                             {"original_max_position_embeddings", 64}};
  Run();
  EXPECT_EQ(Floats(io::GgufFile(dir_ / "x.gguf").Tensor("rope_freqs.weight", {2})),
            (std::vector<float>{1, 8}));
  // 2 pi 5^(1/2) = 14.05 of 40: in the ramp from 10 to 40, (40 / 14.05 - 1) / 3 of the way.
  config_["rope_theta"] = 5;
  config_["rope_scaling"]["original_max_position_embeddings"] = 40;
  Run();
  EXPECT_NEAR(Floats(io::GgufFile(dir_ / "x.gguf").Tensor("rope_freqs.weight"))[1], 1.50665, 1e-4);
  config_["rope_scaling"]["rope_type"] = "yarn";
  EXPECT_EQ(Error(),
            "/config.json: \"rope_scaling\": \"rope_type\": default or linear or llama3 expected, "
            "found yarn");
}

TEST_F(Convert, WhatIsWrongWithAModel) {
  EXPECT_CONTAINS(MessageOf<UsageError>([&] {
                    ConvertHuggingFace(io::RealFileSystem(), dir_.path(), dir_ / "x", {});
                  }),
                  "no config.json in it");
  Llama();
  const auto with = [&](const std::string& key, const Json& value) {
    const Json before = config_;
    config_[key] = value;
    const std::string error = Error();
    config_ = before;
    return error;
  };
  EXPECT_EQ(
      with("model_type", "mamba"),
      "/config.json: \"model_type\": llama or mistral or qwen2 or gpt2 or opt expected, found "
      "mamba");
  EXPECT_EQ(with("hidden_size", nullptr), "/config.json: \"hidden_size\": is missing");
  EXPECT_EQ(with("hidden_size", -8),
            "/config.json: \"hidden_size\": an integer from 1 to 1048576 expected, found -8");
  EXPECT_CONTAINS(with("hidden_size", uint64_t{1} << 63), "expected, found 9223372036854775808");
  EXPECT_CONTAINS(with("hidden_size", "8"), "expected, found \"8\"");
  EXPECT_CONTAINS(with("hidden_act", "gelu"), "\"hidden_act\": silu expected, found gelu");
  EXPECT_CONTAINS(with("rms_norm_eps", 0), "\"rms_norm_eps\": a number above 0 expected, found 0");
  EXPECT_CONTAINS(with("num_attention_heads", 3), "3 does not divide hidden_size 8");
  EXPECT_CONTAINS(with("partial_rotary_factor", 0.5), "\"partial_rotary_factor\"");
  EXPECT_EQ(with("intermediate_size", 13),
            "/model.safetensors: tensor \"model.layers.0.mlp.gate_proj.weight\": shape [13, 8] "
            "expected by config.json, found [12, 8]");
  EXPECT_EQ(with("num_hidden_layers", 2),
            ": tensor \"model.layers.1.input_layernorm.weight\" is missing");
  Add("model.layers.0.surprise.weight", {2});
  EXPECT_CONTAINS(Error(), "\"model.layers.0.surprise.weight\" has no place in a llama model");
  EXPECT_FALSE(std::ifstream(dir_ / "x.gguf").good());
  EXPECT_FALSE(std::ifstream(dir_ / "x.gguf.tmp").good());
}

TEST_F(Convert, SeveralFiles) {
  Llama();
  Write();
  std::filesystem::rename(dir_ / "model.safetensors", dir_ / "model-1.safetensors");
  const auto run = [&](const Json& map) {
    std::ofstream(dir_ / "model.safetensors.index.json") << Json{{"weight_map", map}};
    return MessageOf<UsageError>(
        [&] { ConvertHuggingFace(io::RealFileSystem(), dir_.path(), dir_ / "x.gguf", {}); });
  };
  EXPECT_EQ(run({{"model.norm.weight", "model-1.safetensors"}}), "no error");
  EXPECT_CONTAINS(run({{"model.norm.weight", "model-2.safetensors"}}), "a file of the directory");
  EXPECT_CONTAINS(run({{"nothing", "model-1.safetensors"}}), "\"nothing\": the tensor is in none");
  std::filesystem::copy(dir_ / "model-1.safetensors", dir_ / "model-2.safetensors");
  EXPECT_CONTAINS(run({{"lm_head.weight", "model-1.safetensors"},
                       {"model.norm.weight", "model-2.safetensors"}}),
                  "model-1.safetensors, too");
}

TEST_F(Convert, ByteLevelTokenizer) {
  Llama();
  settings_ = {{"eos_token", {{"content", "b"}}}, {"chat_template", "{{ messages }}"}};
  Run();
  const io::GgufFile file(dir_ / "x.gguf");
  EXPECT_EQ(file.Get<std::string_view>("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(file.Get<std::string_view>("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(file.GetStrings("tokenizer.ggml.tokens"),
            (std::vector<std::string_view>{"a", "b", "ab", "user", "<s>", "[PAD5]"}));
  EXPECT_EQ(file.GetArray<int32_t>("tokenizer.ggml.token_type").ToVector(),
            (std::vector<int32_t>{1, 3, 1, 4, 3, 5}));
  EXPECT_EQ(file.GetStrings("tokenizer.ggml.merges"), std::vector<std::string_view>{"a b"});
  EXPECT_EQ(file.Get<uint32_t>("tokenizer.ggml.bos_token_id"), 4u);
  EXPECT_EQ(file.Get<uint32_t>("tokenizer.ggml.eos_token_id"), 1u);
  EXPECT_FALSE(file.Get<bool>("tokenizer.ggml.add_bos_token"));
  EXPECT_EQ(file.Get<std::string_view>("tokenizer.chat_template"), "{{ messages }}");
}

TEST_F(Convert, SentencePieceTokenizer) {
  Llama();
  tokenizer_["normalizer"] = Json::parse(R"({"type": "Sequence", "normalizers": [
    {"type": "Prepend", "prepend": "▁"}, {"type": "Replace"}]})");
  tokenizer_["pre_tokenizer"] = nullptr;
  tokenizer_["model"] = Json::parse(R"({"type": "BPE", "byte_fallback": true, "unk_token": "b",
    "vocab": {"a": 0, "b": 1, "ab": 2, "<0x0A>": 5}, "merges": ["a b"]})");
  tokenizer_["post_processor"] = Json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]})");
  Run();
  const io::GgufFile file(dir_ / "x.gguf");
  EXPECT_EQ(file.Get<std::string_view>("tokenizer.ggml.model"), "llama");
  EXPECT_EQ(file.GetArray<float>("tokenizer.ggml.scores").ToVector(),
            (std::vector<float>{0, 0, -1, 0, 0, 0}));
  EXPECT_EQ(file.GetArray<int32_t>("tokenizer.ggml.token_type").ToVector(),
            (std::vector<int32_t>{1, 2, 1, 4, 3, 6}));
  EXPECT_TRUE(file.Get<bool>("tokenizer.ggml.add_space_prefix"));
  EXPECT_TRUE(file.Get<bool>("tokenizer.ggml.add_bos_token"));
  EXPECT_FALSE(file.Get<bool>("tokenizer.ggml.add_eos_token"));
}

TEST_F(Convert, VocabularyAndMergesOfOlderModels) {
  Llama();
  tokenizer_ = nullptr;
  EXPECT_EQ(Error(),
            ": no tokenizer.json in it: save the tokenizer with the transformers or "
            "tokenizers package");
  std::ofstream(dir_ / "vocab.json") << R"({"a": 0, "b": 1, "ab": 2})";
  std::ofstream(dir_ / "merges.txt") << "#version: 0.2\na b\n";
  Run();
  const io::GgufFile file(dir_ / "x.gguf");
  EXPECT_EQ(file.GetStrings("tokenizer.ggml.merges"), std::vector<std::string_view>{"a b"});
  EXPECT_EQ(file.Get<std::string_view>("tokenizer.ggml.pre"), "gpt-2");
}

TEST_F(Convert, WhatIsWrongWithATokenizer) {
  Llama();
  const auto with = [&](const char* key, const char* value) {
    const Json before = tokenizer_;
    tokenizer_[Json::json_pointer(key)] = Json::parse(value);
    const std::string error = Error();
    tokenizer_ = before;
    return error;
  };
  EXPECT_CONTAINS(with("/model/type", R"("Unigram")"),
                  "/tokenizer.json: \"model\": \"type\": BPE expected, found Unigram");
  EXPECT_CONTAINS(with("/model/vocab/b", "6"), "\"b\": an integer from 0 to 5 expected, found 6");
  EXPECT_CONTAINS(with("/model/vocab/b", "0"), "tokens \"a\" and \"b\" are both 0");
  EXPECT_CONTAINS(with("/model/merges", "[[1, 2]]"), "\"merges\": entry 0 is no pair");
  EXPECT_CONTAINS(with("/normalizer", R"({"type": "Lowercase"})"), "NFC expected, found Lowercase");
  EXPECT_CONTAINS(with("/pre_tokenizer/add_prefix_space", "true"), "\"add_prefix_space\"");
  EXPECT_CONTAINS(with("/pre_tokenizer", R"({"type": "Whitespace"})"), "with bytes to fall back");
  const char* other = R"({"type": "Sequence", "pretokenizers": [{"type": "Split",
    "pattern": {"Regex": "x+"}, "behavior": "Isolated", "invert": false},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
  EXPECT_EQ(with("/pre_tokenizer", other),
            "/tokenizer.json: \"pre_tokenizer\": no name is known for how it splits words; choose "
            "one with --pre: x+");
  tokenizer_["pre_tokenizer"] = Json::parse(other);
  Run({.pre_tokenizer = "smollm"});
  EXPECT_EQ(io::GgufFile(dir_ / "x.gguf").Get<std::string_view>("tokenizer.ggml.pre"), "smollm");
  settings_ = {{"eos_token", "nowhere"}};
  EXPECT_CONTAINS(Error({.pre_tokenizer = "smollm"}),
                  "/tokenizer_config.json: \"eos_token\": \"nowhere\" is no token");
}

TEST_F(Convert, Gpt2AndOpt) {
  config_ = Json::parse(R"({"model_type": "gpt2", "vocab_size": 6, "n_embd": 4, "n_layer": 1,
    "n_head": 2, "n_positions": 10})");
  for (const char* norm : {"ln_f", "h.0.ln_1", "h.0.ln_2"}) {
    for (const char* part : {".weight", ".bias"}) Add(StrCat(norm, part), {4});
  }
  Add("wte.weight", {6, 4});
  Add("wpe.weight", {10, 4});
  Add("h.0.attn.c_attn.weight", {4, 12});
  Add("h.0.attn.c_proj.weight", {4, 4});
  Add("h.0.mlp.c_fc.weight", {4, 16});
  Add("h.0.mlp.c_proj.weight", {16, 4});
  Add("h.0.attn.bias", {1, 1, 10, 10});
  Run({.type = "F16"});
  {
    const io::GgufFile file(dir_ / "x.gguf");
    EXPECT_EQ(file.Get<uint32_t>("gpt2.feed_forward_length"), 16u);
    const io::GgufTensor& fused = file.Tensor("blk.0.attn_qkv.weight", {12, 4});
    EXPECT_EQ(ToFloat(io::GgufArray<FP16>(fused.data)[1]), 12);  // (0, 1) was (1, 0)
    EXPECT_EQ(file.Tensor("position_embd.weight", {10, 4}).type, WeightType::kF32);
    EXPECT_EQ(file.FindTensor("output.weight"), nullptr);
  }
  config_ = Json::parse(R"({"model_type": "opt", "vocab_size": 6, "hidden_size": 4, "ffn_dim": 8,
    "num_hidden_layers": 0, "num_attention_heads": 2, "max_position_embeddings": 10})");
  EXPECT_CONTAINS(Error(), "\"num_hidden_layers\": an integer from 1 to 1024 expected, found 0");
  config_["num_hidden_layers"] = 1;
  tensors_.clear();
  const std::string decoder = "model.decoder.";
  Add(decoder + "embed_tokens.weight", {6, 4});
  Add(decoder + "embed_positions.weight", {12, 4});
  for (const char* norm :
       {"final_layer_norm", "layers.0.self_attn_layer_norm", "layers.0.final_layer_norm"}) {
    for (const char* part : {".weight", ".bias"}) Add(StrCat(decoder, norm, part), {4});
  }
  for (const char* name : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
    Add(StrCat(decoder, "layers.0.self_attn.", name, ".weight"), {4, 4});
  }
  Add(decoder + "layers.0.fc1.weight", {8, 4});
  Add(decoder + "layers.0.fc2.weight", {4, 8});
  Run();
  const io::GgufFile file(dir_ / "x.gguf");
  EXPECT_EQ(Floats(file.Tensor("position_embd.weight", {10, 4}))[0], 8);  // behind two rows
}

TEST_F(Convert, TokenizersThatNeedNoFile) {
  Llama();
  config_["vocab_size"] = 258;
  Add("model.embed_tokens.weight", {258, 8});
  Add("lm_head.weight", {258, 8});
  Run({.tokenizer = "bytes"});
  const io::GgufFile file(dir_ / "x.gguf");
  const auto tokens = file.GetStrings("tokenizer.ggml.tokens");
  ASSERT_EQ(tokens.size(), 258u);
  EXPECT_EQ(tokens['a'], "a");
  EXPECT_EQ(tokens[' '], "\u0120");
  EXPECT_EQ(tokens[256], "<|endoftext|>");
  EXPECT_EQ(file.Get<uint32_t>("tokenizer.ggml.eos_token_id"), 256u);
  // That of another file, which must fit.
  std::filesystem::rename(dir_ / "x.gguf", dir_ / "bytes.gguf");
  Run({.tokenizer = dir_ / "bytes.gguf"});
  EXPECT_EQ(io::GgufFile(dir_ / "x.gguf").GetStrings("tokenizer.ggml.tokens")[256], tokens[256]);
  config_["vocab_size"] = 6;
  Llama();
  EXPECT_NE(Error({.tokenizer = dir_ / "bytes.gguf"}).find("has 258 tokens, the model 6"),
            std::string::npos);
  EXPECT_NE(Error({.tokenizer = "bytes"}).find("a vocabulary of 256 at least"), std::string::npos);
}

TEST_F(Convert, BlocksByRecipe) {
  Llama();
  config_["hidden_size"] = 32;
  config_["intermediate_size"] = 64;
  for (auto& [name, source] : tensors_) {
    std::vector<int64_t> shape = source.shape;
    for (int64_t& extent : shape)
      extent = extent == 8 ? 32 : extent == 4 ? 16 : extent == 12 ? 64 : extent;
    Add(name, shape);
    for (float& value : tensors_[name].values) value = std::sin(value);
  }
  const Conversion done = Run({.type = "q4_k", .tokenizer = ""});
  const io::GgufFile file(dir_ / "x.gguf");
  EXPECT_EQ(file.Tensor("blk.0.attn_q.weight").type, WeightType::kQ5_0);  // 32 columns
  EXPECT_EQ(file.Tensor("blk.0.attn_norm.weight").type, WeightType::kF32);
  EXPECT_EQ(done.notes.size(), 3u);  // the head, of 32 and of 64 columns
  EXPECT_NE(Error({.type = "q9"}).find("no recipe is called"), std::string::npos);
}

}  // namespace
}  // namespace thinwire::infer
