#include "thinwire/text/pre_tokenizer_names.h"

#include <algorithm>
#include <array>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/nearest.h"

namespace thinwire::text {
namespace {

using Expressions = std::string_view;

// Parts that several expressions share.
#define TW_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TW_SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define TW_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define TW_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define TW_UPPER_NO_HAN R"((?:(?!\p{sc:Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]))"
#define TW_LOWER_NO_HAN R"((?:(?!\p{sc:Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}]))"
#define TW_ASCII_PUNCTUATION R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~])"
#define TW_GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
#define TW_DEEPSEEK3_WORDS \
  TW_ASCII_PUNCTUATION R"([A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+)"
#define TW_CASED(upper, lower, end) \
  R"([^\r\n\p{L}\p{N}]?)" upper "*" lower "+" end R"(|[^\r\n\p{L}\p{N}]?)" upper "+" lower "*" end

constexpr Expressions kGpt2[] = {TW_GPT2};
constexpr Expressions kDigitsGpt2[] = {R"(\p{N})", TW_GPT2};
constexpr Expressions kDefault[] = {R"([\p{P}\$\+<=>\^~\|]+)", TW_GPT2, R"(\p{N}+)",
                                    "[0-9][0-9][0-9]"};
constexpr Expressions kFalcon[] = {R"([\p{P}\$\+<=>\^~\|`]+)", TW_GPT2, "[0-9][0-9][0-9]"};
constexpr Expressions kLlama3[] = {
    TW_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" TW_SPACES};
constexpr Expressions kQwen2[] = {
    TW_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" TW_SPACES};
constexpr Expressions kQwen35[] = {
    TW_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" TW_SPACES};
constexpr Expressions kMiniCpm5[] = {
    R"(\p{N}{1,3})",
    TW_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)" TW_SPACES};
constexpr Expressions kUfakzeka[] = {
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" TW_SPACES};
constexpr Expressions kLaguna[] = {R"([^\n]+|[\n]+)", kQwen2[0]};
constexpr Expressions kJais2[] = {
    TW_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
    R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S))"
    R"(|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"};
constexpr Expressions kSeedCoder[] = {
    TW_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+)" TW_SPACES};
constexpr Expressions kBailing[] = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr Expressions kExaoneMoe[] = {
    TW_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr Expressions kGpt4o[] = {
    TW_CASED(TW_UPPER, TW_LOWER, TW_CONTRACTIONS "?") R"(|\p{N}{1,3})"
                                                      R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*)" TW_SPACES};
// The original ends with \b, whose word characters include marks, unlike PCRE2's.
constexpr Expressions kTinyAya[] = {R"(\d{1,3}(?=(?:\d{3})*(?![\p{L}\p{M}\p{N}\p{Pc}])))",
                                    kGpt4o[0]};
constexpr Expressions kTekken[] = {
    TW_CASED(TW_UPPER, TW_LOWER, "") R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" TW_SPACES};
constexpr Expressions kYoutu[] = {
    "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-"
    "ゟ゠-"
    "ヿ]"
    "+",
    TW_CASED(TW_UPPER, TW_LOWER,
             TW_CONTRACTIONS "?") R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" TW_SPACES};
constexpr Expressions kKimi[] = {R"(\p{sc:Han}+|)" TW_CASED(
    TW_UPPER_NO_HAN, TW_LOWER_NO_HAN,
    TW_CONTRACTIONS "?") R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" TW_SPACES};
constexpr Expressions kDeepseekLlm[] = {
    "[\r\n]",
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})"
    R"(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})"
    R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
    R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"
    R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})"
    R"(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
    R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126})"
    R"(\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149})"
    R"(\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3})"
    R"(\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})"
    R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2})"
    R"(\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)",
    "\\s?[!-/:-~！-／：-～‘-‟　-。]+",
    "\\s+$",
    "[一-龥ࠀ-一가-\xED\x9F\xBF]+",
    "\\p{N}+"};
constexpr Expressions kDeepseekCoder[] = {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                          "[一-龥ࠀ-一가-\xED\x9F\xBF]+", R"(\p{N})"};
constexpr Expressions kDeepseek3[] = {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+",
                                      TW_DEEPSEEK3_WORDS R"([\r\n]*)" TW_SPACES};
constexpr Expressions kSpark[] = {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+",
                                  TW_DEEPSEEK3_WORDS R"(|[\r\n]|\s+(?!\S)|\s+)", R"(\p{N})"};
constexpr Expressions kBloom[] = {R"( ?[^(\s|.,!?…。，、।۔،)]+)"};
constexpr Expressions kViking[] = {kBloom[0], R"(\p{N})"};
constexpr Expressions kChameleon[] = {
    "<sentinel:[0-9]+>",       "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
    "([\\t\\n]|    |  )",      R"(\p{N})",
    R"([\p{P}!-/:-@\[-`{-~])", TW_GPT2};
constexpr Expressions kSuperBpe[] = {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"};

#undef TW_CONTRACTIONS
#undef TW_SPACES
#undef TW_UPPER
#undef TW_LOWER
#undef TW_UPPER_NO_HAN
#undef TW_LOWER_NO_HAN
#undef TW_ASCII_PUNCTUATION
#undef TW_GPT2
#undef TW_DEEPSEEK3_WORDS
#undef TW_CASED

constexpr PreTokenizerRule kRules[] = {
    {"default", kDefault},
    {"gpt-2", kGpt2},
    {"phi-2", kGpt2},
    {"mpt", kGpt2},
    {"olmo", kGpt2},
    {"jais", kGpt2},
    {"trillion", kGpt2},
    {"granite-docling", kGpt2},
    {"gigachat", kGpt2},
    {"a.x-4.0", kGpt2},
    {"mellum", kGpt2},
    {"modern-bert", kGpt2},
    {"jina-es", kGpt2},
    {"jina-de", kGpt2},
    {"jina-v2-es", kGpt2},
    {"jina-v2-de", kGpt2},
    {"exaone4", kGpt2},
    {"smollm", kDigitsGpt2},
    {"starcoder", kDigitsGpt2},
    {"refact", kDigitsGpt2},
    {"command-r", kDigitsGpt2},
    {"codeshell", kDigitsGpt2},
    {"exaone", kDigitsGpt2},
    {"minerva-7b", kDigitsGpt2},
    {"mellum2", kDigitsGpt2},
    {"falcon", kFalcon},
    {"llama3", kLlama3, true, true},
    {"llama-v3", kLlama3, true, true},
    {"llama-bpe", kLlama3, true, true},
    {"falcon3", kLlama3, true, true},
    {"falcon-h1", kLlama3, true, true},
    {"pixtral", kLlama3, true, true},
    {"midm-2.0", kLlama3, true, true},
    {"lfm2", kLlama3, true, true},
    {"jina-v5-nano", kLlama3, true, true},
    {"dbrx", kLlama3},
    {"smaug-bpe", kLlama3},
    {"glm4", kLlama3},
    {"chatglm-bpe", kLlama3},
    {"jais-2", kJais2},
    {"qwen2", kQwen2},
    {"deepseek-r1-qwen", kQwen2},
    {"kormo", kQwen2},
    {"f2llmv2", kQwen2},
    {"megrez", kQwen2},
    {"stablelm2", kQwen2},
    {"hunyuan", kQwen2},
    {"solar-open", kQwen2},
    {"grok-2", kQwen2},
    {"qwen35", kQwen35},
    {"minicpm5", kMiniCpm5, true},
    {"ufakzeka", kUfakzeka},
    {"laguna", kLaguna},
    {"seed-coder", kSeedCoder},
    {"bailingmoe", kBailing},
    {"bailingmoe2", kBailing},
    {"llada-moe", kBailing},
    {"exaone-moe", kExaoneMoe},
    {"gpt-4o", kGpt4o},
    {"llama4", kGpt4o},
    {"kanana2", kGpt4o},
    {"talkie", kGpt4o},
    {"minimax-m2", kGpt4o},
    {"tiny_aya", kTinyAya},
    {"cohere2moe", kTinyAya},
    {"tekken", kTekken, true, true},
    {"youtu", kYoutu, true},
    {"kimi-k2", kKimi},
    {"deepseek-llm", kDeepseekLlm},
    {"deepseek-coder", kDeepseekCoder},
    {"deepseek-v3", kDeepseek3},
    {"hunyuan-dense", kDeepseek3},
    {"joyai-llm", kDeepseek3},
    {"hy_v4", kDeepseek3},
    {"spark2_5", kSpark},
    {"bloom", kBloom},
    {"gpt3-finnish", kBloom},
    {"poro-chat", kBloom},
    {"viking", kViking},
    {"chameleon", kChameleon, false, true},
    {"superbpe", kSuperBpe},
};

// Up to four names, the nearest first.
std::string NamesLike(std::string_view name) {
  std::vector<std::string_view> names;
  for (const PreTokenizerRule& rule : kRules) names.push_back(rule.name);
  std::ranges::stable_sort(names, {}, [&](std::string_view n) { return EditDistance(name, n); });
  return StrCat(names[0], ", ", names[1], ", ", names[2], ", ", names[3]);
}

}  // namespace

std::span<const PreTokenizerRule> PreTokenizerRules() { return kRules; }

const PreTokenizerRule& FindPreTokenizer(std::string_view name) {
  const auto* rule = std::ranges::find(kRules, name, &PreTokenizerRule::name);
  if (rule != std::end(kRules)) return *rule;
  if (name.empty()) {
    throw UsageError(
        "tokenizer: the file names no pre-tokenizer (tokenizer.ggml.pre); without one words would "
        "be split wrongly");
  }
  throw UsageError(StrCat("tokenizer: unknown pre-tokenizer '", name, "' (tokenizer.ggml.pre); of ",
                          std::size(kRules), " known ones the nearest are ", NamesLike(name)));
}

}  // namespace thinwire::text
