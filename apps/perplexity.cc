#include "apps/perplexity.h"

#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "apps/engine_options.h"
#include "thinwire/base/error.h"
#include "thinwire/infer/engine.h"
#include "thinwire/infer/perplexity.h"
#include "thinwire/io/file.h"

namespace thinwire::app {
namespace {

constexpr int64_t kMostTextBytes = int64_t{1} << 30;
// What logits of one product take: 16 rows of 150,000 tokens are 10 MB.
constexpr int64_t kOutputs = 16;

struct Question {
  std::string model, text, logits;
  infer::EngineOptions engine;
};

void Print(const Question& question) {
  infer::EngineOptions options = question.engine;
  if (options.context == 0) options.context = 512;
  options.outputs = kOutputs;
  infer::Engine engine(question.model, options);
  std::vector<int32_t> tokens;
  text::Encoder(engine.tokenizer())
      .Encode(io::ReadFile(io::RealFileSystem(), question.text, kMostTextBytes),
              {.add_special = false, .parse_special = false}, &tokens);
  const text::Vocabulary& vocabulary = engine.tokenizer().vocabulary();
  const int32_t begin = vocabulary.add_bos() ? vocabulary.ids().bos : text::kNoToken;
  std::cout << std::fixed << std::setprecision(4);
  infer::PerplexityWatch watch;
  watch.progress = [](const infer::Perplexity& found, int64_t done, int64_t windows) {
    std::cout << "window " << done << " of " << windows << ": perplexity " << found.value()
              << " +/- " << found.standard_error() << " over " << found.tokens << " tokens"
              << std::endl;
  };
  std::optional<io::File> file;
  if (!question.logits.empty()) {
    file.emplace(io::RealFileSystem(), question.logits, io::OpenMode::kCreate);
    watch.window = [&file](std::span<const int32_t> ids) { file->Append(std::as_bytes(ids)); };
    watch.logits = [&file](std::span<const float> rows) { file->Append(std::as_bytes(rows)); };
  }
  infer::MeasurePerplexity(engine.decoder(), tokens, begin, options.context, watch);
  if (file) file->Close();
}

}  // namespace

void AddPerplexity(CLI::App& app) {
  const auto question = std::make_shared<Question>();
  CLI::App* const command =
      app.add_subcommand("perplexity", "Measure how well a model predicts a text");
  command->footer(
      "The text is cut into windows of --context tokens (512 unless given), and the second half "
      "of\n"
      "each counts, as llama-perplexity counts. Logits are never kept for more than a few tokens.\n"
      "--logits writes for each window its tokens as int32, then as float32 [token][vocabulary] "
      "the\n"
      "logits before each token that counts.");
  command->add_option("MODEL", question->model, "A .gguf file")->required();
  command->add_option("-f,--file", question->text, "The text")->required();
  command->add_option("--logits", question->logits, "A file that gets all logits");
  AddEngineOptions(*command, question->engine);
  command->callback([question] { Print(*question); });
}

}  // namespace thinwire::app
