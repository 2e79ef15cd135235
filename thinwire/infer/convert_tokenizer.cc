#include "thinwire/infer/convert_tokenizer.h"

#include <map>
#include <sstream>

#include "thinwire/base/error.h"
#include "thinwire/infer/convert_pre_tokenizer.h"

namespace thinwire::infer {
namespace {

constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";

// tokenizer.ggml.token_type
enum TokenType : int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

// Older models have vocab.json and merges.txt, which is all there is to say of GPT-2's tokenizer.
Json FromVocabularyAndMerges(const ModelSource& model) {
  Json merges = Json::array();
  std::istringstream lines(model.ReadText("merges.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(line);
  }
  return {
      {"model", {{"type", "BPE"}, {"vocab", *model.FindJson("vocab.json")}, {"merges", merges}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}}};
}

Json ReadTokenizer(const ModelSource& model, std::string& path) {
  path = model.PathOf(kTokenizer);
  if (auto json = model.FindJson(kTokenizer)) return *std::move(json);
  path = model.PathOf("vocab.json");
  if (model.Has("vocab.json") && model.Has("merges.txt")) return FromVocabularyAndMerges(model);
  throw UsageError(
      StrCat(model.name(), ": no ", kTokenizer,
             " in it: save the tokenizer with the transformers or tokenizers package"));
}

class Tokens {
 public:
  Tokens(const JsonView& tokenizer, const JsonView& bpe, int64_t vocabulary, bool byte_level)
      : where_(tokenizer), vocabulary_(vocabulary), byte_level_(byte_level) {
    const auto size = static_cast<size_t>(vocabulary);
    texts.resize(size);
    types.resize(size, kUnused);
    const auto vocab = bpe.FindObject("vocab");
    if (!vocab) bpe.Fail("vocab", "is missing");
    for (const auto& [text, id] : vocab->json().items()) {
      Add(vocab->Integer(text, 0, vocabulary - 1), text, kNormal);
    }
    if (tokenizer.Find("added_tokens")) AddSpecial(tokenizer.Array("added_tokens"));
    if (const auto unknown = bpe.FindText("unk_token"); unknown && !byte_level) {
      types[static_cast<size_t>(Require(bpe, "unk_token", *unknown))] = kUnknown;
    }
    for (size_t i = 0; i < size; ++i) {
      if (types[i] == kUnused) texts[i] = StrCat("[PAD", i, "]");
    }
  }

  // None when no token has this text.
  const int64_t* Find(const std::string& text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? nullptr : &found->second;
  }
  int64_t Require(const JsonView& view, std::string_view key, const std::string& text) const {
    const int64_t* id = Find(text);
    if (id == nullptr) view.Fail(key, StrCat("\"", text, "\" is no token"));
    return *id;
  }

  std::vector<std::string> texts;
  std::vector<int32_t> types;

 private:
  void Add(int64_t id, const std::string& text, int32_t type) {
    const auto i = static_cast<size_t>(id);
    if (types[i] != kUnused && texts[i] != text) {
      where_.Fail("model", StrCat("tokens \"", texts[i], "\" and \"", text, "\" are both ", id));
    }
    const auto [known, is_new] = ids_.try_emplace(text, id);
    if (!is_new && known->second != id) {
      where_.Fail("model", StrCat("\"", text, "\" is token ", id, " and ", known->second));
    }
    texts[i] = text;
    const bool byte = text.size() == 6 && text.starts_with("<0x") && text.ends_with(">");
    types[i] = type == kNormal && byte && !byte_level_ ? static_cast<int32_t>(kByte) : type;
  }

  void AddSpecial(const Json& added) {
    size_t i = 0;
    for (const Json& entry : added) {
      const JsonView view(StrCat(where_.where(), ": \"added_tokens\"[", i++, "]"), entry);
      const auto content = view.FindText("content");
      if (!content) view.Fail("content", "is missing");
      const int64_t id = view.Integer("id", 0, vocabulary_ - 1);
      Add(id, *content, view.Flag("special", false) ? kControl : kUserDefined);
    }
  }

  const JsonView& where_;
  const int64_t vocabulary_;
  const bool byte_level_;
  std::map<std::string, int64_t> ids_;
};

// "left right", best first. Newer files have pairs, older ones a text.
std::vector<std::string> MergesOf(const JsonView& bpe) {
  std::vector<std::string> merges;
  for (const Json& merge : bpe.Array("merges")) {
    if (merge.is_string()) {
      merges.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      merges.push_back(StrCat(merge[0].get<std::string>(), " ", merge[1].get<std::string>()));
    } else {
      bpe.Fail("merges", StrCat("entry ", merges.size(), " is no pair"));
    }
  }
  return merges;
}

// SentencePiece joins the two neighbours whose union has the best score, so the scores that give
// the order of the merges are minus the place of the first merge that makes a token.
std::vector<float> ScoresOf(const JsonView& bpe, const Tokens& tokens) {
  std::vector<float> scores(tokens.texts.size(), 0);
  float score = 0;
  for (std::string merge : MergesOf(bpe)) {
    score -= 1;
    const size_t space = merge.find(' ');
    if (space == std::string::npos) bpe.Fail("merges", StrCat("\"", merge, "\" is no pair"));
    const int64_t id = tokens.Require(bpe, "merges", merge.erase(space, 1));
    if (scores[static_cast<size_t>(id)] == 0) scores[static_cast<size_t>(id)] = score;
  }
  return scores;
}

void CheckByteLevel(const JsonView& tokenizer, const JsonView& bpe) {
  if (const auto normalizer = tokenizer.FindObject("normalizer")) {
    normalizer->RequireText("type", "", {"NFC"});
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!bpe.FindText(key).value_or("").empty()) bpe.Fail(key, "is not converted");
  }
}

// The normalizer or pre-tokenizer of a SentencePiece vocabulary turns spaces into U+2581, and may
// put one before the text.
bool AddsSpacePrefix(const JsonView& tokenizer) {
  if (HasPart(tokenizer, "normalizer", "Prepend")) return true;
  const Json* spaces = nullptr;
  if (!HasPart(tokenizer, "pre_tokenizer", "Metaspace", &spaces)) return false;
  const JsonView view(tokenizer.where() + ": \"pre_tokenizer\"", *spaces);
  const auto scheme = view.FindText("prepend_scheme");
  return scheme ? *scheme != "never" : view.Flag("add_prefix_space", true);
}

struct Ends {
  bool before = false;
  bool after = false;
};

// Whether special tokens go before and after a text.
Ends EndsOf(const JsonView& tokenizer, const JsonView* config) {
  const Json* processing = nullptr;
  if (HasPart(tokenizer, "post_processor", "TemplateProcessing", &processing)) {
    const JsonView view(tokenizer.where() + ": \"post_processor\"", *processing);
    const Json& single = view.Array("single");
    const auto special = [](const Json& part) {
      return part.is_object() && part.contains("SpecialToken");
    };
    if (!single.empty()) return {special(single.front()), special(single.back())};
  }
  if (config == nullptr) return {};
  return {config->Flag("add_bos_token", false), config->Flag("add_eos_token", false)};
}

// The text of a special token: in newer files an object says more about it.
std::optional<std::string> SpecialText(const JsonView& config, std::string_view key) {
  const Json* value = config.Find(key);
  if (value == nullptr || value->is_string()) return config.FindText(key);
  return config.FindObject(key)->FindText("content");
}

// Of config.json; of several the first. None below 0, which some files have for no token.
std::optional<int64_t> SpecialId(const JsonView& config, const std::string& key, int64_t most) {
  const Json* value = config.Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_array()) {
    if (value->empty()) return std::nullopt;
    const Json first = {{key, value->front()}};
    return SpecialId(JsonView(config.where(), first), key, most);
  }
  const int64_t id = config.Integer(key, INT64_MIN, most);
  return id < 0 ? std::nullopt : std::optional(id);
}

void SetSpecial(const ModelSource& model, const JsonView* config, Tokens& tokens,
                io::GgufWriter& writer) {
  const std::pair<const char*, const char*> names[] = {
      {"bos", "bos"}, {"eos", "eos"}, {"unk", "unknown"}, {"pad", "padding"}};
  for (const auto& [from, to] : names) {
    std::optional<int64_t> id;
    const std::string key = StrCat(from, "_token");
    if (config != nullptr) {
      if (const auto text = SpecialText(*config, key)) id = tokens.Require(*config, key, *text);
    }
    const auto most = static_cast<int64_t>(tokens.texts.size()) - 1;
    if (!id) id = SpecialId(model.config(), key + "_id", most);
    if (!id) continue;
    int32_t& type = tokens.types[static_cast<size_t>(*id)];
    if (type == kNormal) type = kControl;
    writer.Set(StrCat("tokenizer.ggml.", to, "_token_id"), static_cast<uint32_t>(*id));
  }
}

std::optional<std::string> ChatTemplate(const ModelSource& model, const JsonView* config) {
  constexpr const char* kFile = "chat_template.jinja";
  if (model.Has(kFile)) return model.ReadText(kFile);
  const Json* value = config == nullptr ? nullptr : config->Find("chat_template");
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) return config->FindText("chat_template");
  for (const Json& entry : *value) {  // several, by name
    const JsonView view(config->where() + ": \"chat_template\"", entry);
    if (view.FindText("name") == "default") return view.FindText("template");
  }
  return std::nullopt;
}

}  // namespace

int64_t DescribeTokenizer(const ModelSource& model, int64_t vocabulary,
                          const std::string& pre_tokenizer, io::GgufWriter& writer) {
  std::string path;
  const Json json = ReadTokenizer(model, path);
  const JsonView tokenizer(path, json);
  const auto bpe = tokenizer.FindObject("model");
  if (!bpe) tokenizer.Fail("model", "is missing");
  bpe->RequireText("type", bpe->Find("merges") ? "BPE" : "", {"BPE"});
  const bool byte_level = HasPart(tokenizer, "pre_tokenizer", "ByteLevel");
  if (byte_level) {
    CheckByteLevel(tokenizer, *bpe);
  } else if (!bpe->Flag("byte_fallback", false)) {
    tokenizer.Fail("pre_tokenizer", "BPE on bytes, or with bytes to fall back to, expected");
  }
  const std::unique_ptr<Json> config_json = model.FindJson(kTokenizerConfig);
  std::optional<JsonView> config;
  if (config_json) config.emplace(model.PathOf(kTokenizerConfig), *config_json);
  const JsonView* const settings = config ? &*config : nullptr;

  Tokens tokens(tokenizer, *bpe, vocabulary, byte_level);
  writer.Set<std::string_view>("tokenizer.ggml.model", byte_level ? "gpt2" : "llama");
  if (byte_level) {
    writer.Set<std::string_view>("tokenizer.ggml.pre", pre_tokenizer.empty()
                                                           ? PreTokenizerNameOf(tokenizer)
                                                           : pre_tokenizer);
    writer.SetStrings("tokenizer.ggml.merges", MergesOf(*bpe));
  } else {
    writer.SetArray<float>("tokenizer.ggml.scores", ScoresOf(*bpe, tokens));
    writer.Set("tokenizer.ggml.add_space_prefix", AddsSpacePrefix(tokenizer));
  }
  SetSpecial(model, settings, tokens, writer);
  writer.SetStrings("tokenizer.ggml.tokens", tokens.texts);
  writer.SetArray<int32_t>("tokenizer.ggml.token_type", tokens.types);
  const Ends ends = EndsOf(tokenizer, settings);
  writer.Set("tokenizer.ggml.add_bos_token", ends.before);
  writer.Set("tokenizer.ggml.add_eos_token", ends.after);
  if (const auto chat = ChatTemplate(model, settings)) {
    writer.Set<std::string_view>("tokenizer.chat_template", *chat);
  }
  return vocabulary;
}

}  // namespace thinwire::infer
