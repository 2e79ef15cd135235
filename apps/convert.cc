#include "apps/convert.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/convert_checkpoint.h"
#include "apps/machine.h"
#include "thinwire/base/error.h"
#include "thinwire/infer/convert.h"
#include "thinwire/io/file.h"
#include "thinwire/speech/whisper_model.h"

namespace thinwire::app {
namespace {

constexpr const char* kHelp =
    "DIR has config.json, model.safetensors (or several with an index) and tokenizer.json, as\n"
    "save_pretrained writes them. LLaMA, Mistral, Qwen2, GPT-2 and OPT are converted; "
    "docs/gguf.md\n"
    "says how. Example: thinwire convert SmolLM2-135M -o smollm2.gguf --type bf16\n"
    "A checkpoint of `thinwire train`, or a folder of them, becomes a model whose tokens are "
    "bytes.\n"
    "A folder with CTranslate2's model.bin is taken for a Whisper model; --type may be q8_0 then.";

struct Request {
  std::string directory;
  std::string like;
  std::string output;
  std::string type;  // empty: as in the source
  std::string pre_tokenizer;
};

bool IsCTranslate2(const std::string& directory) {
  const std::vector<std::string> names = io::ListDirectory(io::RealFileSystem(), directory);
  return std::ranges::binary_search(names, "model.bin");
}

void ConvertWhisper(const Request& request) {
  std::optional<WeightType> type;
  if (!request.type.empty()) {
    type = WeightTypeNamed(request.type);
    if (!type) throw UsageError(StrCat("--type: no type is called ", request.type));
  }
  if (!request.pre_tokenizer.empty()) {
    throw UsageError("--pre: Whisper's text is only written, never split into words");
  }
  const auto model = speech::WhisperModel::Open(request.directory);
  speech::WriteGguf(*model, type, io::RealFileSystem(), request.output);
  std::cout << request.output << ": whisper, " << model->tensors().size() << " tensors, "
            << model->spec().vocabulary << " tokens\n";
}

void Convert(const Request& request) {
  if (IsCTranslate2(request.directory)) return ConvertWhisper(request);
  const infer::ConvertOptions options{.type = request.type, .pre_tokenizer = request.pre_tokenizer};
  io::FileSystem& fs = io::RealFileSystem();
  const bool checkpoint = IsCheckpoint(fs, request.directory);
  if (!checkpoint && !request.like.empty()) {
    throw UsageError(StrCat("--like: for checkpoints; ", request.directory, " is none"));
  }
  const infer::Conversion done =
      checkpoint ? ConvertCheckpoint(fs, request.directory, request.like, request.output, options)
                 : infer::ConvertHuggingFace(fs, request.directory, request.output, options);
  for (const std::string& note : done.notes) std::cerr << note << '\n';
  std::cout << request.output << ": " << done.architecture << ", " << done.tensors << " tensors, "
            << done.tokens << " tokens, " << HumanBytes(done.bytes) << '\n';
}

}  // namespace

void AddConvert(CLI::App& app) {
  const auto request = std::make_shared<Request>();
  CLI::App* const command = app.add_subcommand(
      "convert",
      "Write a model of Hugging Face's or CTranslate2's form, or a checkpoint, as a GGUF file");
  command->footer(kHelp);
  command->add_option("DIR", request->directory, "The model as those libraries save it")
      ->required();
  command->add_option("-o,--output", request->output, "The GGUF file to write")->required();
  command->add_option("--type", request->type,
                      "Of the matrices: f16, q8_0, q4_k_m ... (`thinwire quantize --help`); "
                      "default: as in DIR");
  command->add_option("--like", request->like,
                      "Of a checkpoint that Python saved: a folder with the model's config.json "
                      "and tokenizer.json");
  command->add_option("--pre", request->pre_tokenizer,
                      "How text is split into words (tokenizer.ggml.pre), where tokenizer.json's "
                      "way has no known name");
  command->callback([request] { Convert(*request); });
}

}  // namespace thinwire::app
