// For tests: vocabularies and expected tokens from the JSON files of testdata/, which
// tests/text/golden.py makes with Hugging Face's tokenizers and with SentencePiece.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/text/vocabulary.h"

namespace thinwire::text {

inline nlohmann::json ReadJson(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  return nlohmann::json::parse(file);
}

// Owns what a VocabularySource views.
class VocabularyParts {
 public:
  explicit VocabularyParts(const nlohmann::json& json)
      : token_texts_(json.at("tokens")),
        merge_texts_(json.value("merges", std::vector<std::string>())),
        pre_tokenizer_(json.value("pre_tokenizer", "")),
        types_(json.value("types", std::vector<int32_t>())),
        scores_(json.value("scores", std::vector<float>())),
        tokens_(token_texts_.begin(), token_texts_.end()),
        merges_(merge_texts_.begin(), merge_texts_.end()) {
    const std::string kind = json.value("kind", "bpe");
    source_.kind = kind == "bpe"              ? TokenizerKind::kByteLevelBpe
                   : kind == "sentence_piece" ? TokenizerKind::kSentencePieceBpe
                                              : TokenizerKind::kUnigram;
    source_.ids.bos = json.value("bos", kNoToken);
    source_.ids.eos = json.value("eos", kNoToken);
    source_.ids.unknown = json.value("unknown", kNoToken);
    source_.add_bos = json.value("add_bos", false);
    source_.add_eos = json.value("add_eos", false);
    source_.add_space_prefix = json.value("add_space_prefix", false);
    source_.ignore_merges = json.value("ignore_merges", false);
  }

  VocabularySource source() const {
    VocabularySource source = source_;
    source.tokens = tokens_;
    source.merges = merges_;
    source.types = types_;
    source.scores = scores_;
    source.pre_tokenizer = pre_tokenizer_;
    return source;
  }

 private:
  std::vector<std::string> token_texts_, merge_texts_;
  std::string pre_tokenizer_;
  std::vector<int32_t> types_;
  std::vector<float> scores_;
  std::vector<std::string_view> tokens_, merges_;
  VocabularySource source_;
};

}  // namespace thinwire::text
