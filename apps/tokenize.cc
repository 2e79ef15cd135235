#include "apps/tokenize.h"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/infer/vocabulary_from_gguf.h"
#include "thinwire/io/file.h"
#include "thinwire/text/decoder.h"

namespace thinwire::app {
namespace {

constexpr int64_t kMostTextBytes = int64_t{1} << 30;
constexpr int kRounds = 5;

struct Question {
  std::string model, prompt, file;
  bool json = false;
  bool speed = false;
  text::EncodeOptions encode;
};

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

void PrintTokens(const text::Vocabulary& vocabulary, const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) {
    const nlohmann::json piece = vocabulary.Bytes(id);
    std::cout << std::setw(8) << id << "  "
              << piece.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  }
}

// A line of standard input is a JSON string, a line of the output what became of it.
void AnswerLines(const Question& question, const text::Tokenizer& tokenizer) {
  text::Encoder encoder(tokenizer);
  std::vector<int32_t> ids;
  std::vector<char> piece;
  for (std::string line; std::getline(std::cin, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_string()) throw UsageError("expected one JSON string per line");
    ids.clear();
    encoder.Encode(json.get<std::string>(), question.encode, &ids);
    text::Decoder decoder(tokenizer.vocabulary());
    piece.resize(decoder.MaxBytes());
    std::string decoded;
    for (const int32_t id : ids) decoded.append(piece.data(), decoder.Append(id, piece));
    decoded.append(piece.data(), decoder.Finish(piece));
    std::cout << nlohmann::json({{"ids", ids}, {"text", decoded}}) << '\n';
  }
}

// On one thread; the best of a few rounds.
void MeasureSpeed(const Question& question, const io::GgufFile& file, const std::string& text) {
  double load = 1e9;
  for (int i = 0; i < kRounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    infer::ReadTokenizer(file);
    load = std::min(load, Seconds(begin));
  }
  const auto tokenizer = infer::ReadTokenizer(file);
  text::Encoder encoder(*tokenizer);
  std::vector<int32_t> ids;
  ids.reserve(text::Encoder::MaxIds(text.size()));
  double encode = 1e9;
  for (int i = 0; i < kRounds; ++i) {
    ids.clear();
    const auto begin = std::chrono::steady_clock::now();
    encoder.Encode(text, question.encode, &ids);
    encode = std::min(encode, Seconds(begin));
  }
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  std::cout << nlohmann::json({{"load_ms", load * 1e3},
                               {"tokens", ids.size()},
                               {"mb_per_s", megabytes / encode}})
            << '\n';
}

void Tokenize(const Question& question) {
  const io::GgufFile file(question.model);
  const auto tokenizer = infer::ReadTokenizer(file);
  if (question.json) {
    AnswerLines(question, *tokenizer);
    return;
  }
  const std::string text = question.file.empty()
                               ? question.prompt
                               : io::ReadFile(io::RealFileSystem(), question.file, kMostTextBytes);
  if (question.speed) {
    MeasureSpeed(question, file, text);
    return;
  }
  std::vector<int32_t> ids;
  const size_t lost = text::Encoder(*tokenizer).Encode(text, question.encode, &ids);
  PrintTokens(tokenizer->vocabulary(), ids);
  if (lost > 0) std::cout << lost << " bytes have no token and are lost\n";
}

}  // namespace

void AddTokenize(CLI::App& app) {
  const auto question = std::make_shared<Question>();
  question->encode = {.add_special = false, .parse_special = false};
  CLI::App* const command =
      app.add_subcommand("tokenize", "Show what tokens a model makes of a text");
  command->footer("Each line has a token's id and the bytes that it stands for.");
  command->add_option("MODEL", question->model, "A .gguf file")->required();
  CLI::Option* const prompt = command->add_option("-p,--prompt", question->prompt, "The text");
  command->add_option("-f,--file", question->file, "A file with the text")->excludes(prompt);
  command->add_flag("--special", question->encode.parse_special,
                    "Find control tokens that the text spells out, such as <|im_end|>");
  command->add_flag("--begin-end", question->encode.add_special,
                    "Add the tokens that the model wants before and after a text");
  command->add_flag("--json-lines", question->json,
                    "Read JSON strings, one per line, from standard input; print ids and the text "
                    "they stand for");
  command->add_flag("--speed", question->speed,
                    "Print milliseconds to load and megabytes per second instead");
  command->callback([question] { Tokenize(*question); });
}

}  // namespace thinwire::app
