#include "apps/convert_checkpoint.h"

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/infer/convert_json.h"
#include "thinwire/infer/gguf_export.h"
#include "thinwire/io/atomic_directory.h"
#include "thinwire/zero/checkpoint.h"

namespace thinwire::app {
namespace {

using infer::Json;
using infer::JsonView;
using io::AtomicDirectory;

constexpr int64_t kMostText = int64_t{1} << 24;
constexpr int64_t kMost = int64_t{1} << 30;

bool HasManifest(io::FileSystem& fs, const std::string& path) {
  return std::ranges::binary_search(io::ListDirectory(fs, path), AtomicDirectory::kManifest);
}

std::string Newest(io::FileSystem& fs, const std::string& path) {
  if (HasManifest(fs, path)) return path;
  return AtomicDirectory(fs, path).Look().complete.front().path;
}

// The rows of a parameter.
int64_t RowsOf(const zero::Checkpoint& checkpoint, const std::string& name) {
  const auto found = std::ranges::find(checkpoint.parameters(), name, &zero::ParameterSpec::name);
  if (found == checkpoint.parameters().end() || found->shape.empty()) {
    throw UsageError(StrCat(checkpoint.directory(), ": parameter \"", name, "\" is missing"));
  }
  return found->shape.front();
}

// What thinwire-train noted of its model, as config.json.
std::string ConfigOf(const zero::Checkpoint& checkpoint) {
  const auto text = checkpoint.extra().find("config");
  const Json config = text == checkpoint.extra().end() || !text->is_string()
                          ? Json()
                          : Json::parse(text->get_ref<const std::string&>(), nullptr, false);
  if (!config.is_object()) {
    throw UsageError(StrCat(checkpoint.directory(),
                            ": was not saved by thinwire-train; --like names a folder with the "
                            "model's config.json and tokenizer.json"));
  }
  const JsonView view(checkpoint.directory() + ": config", config);
  const auto model = view.FindObject("model"), data = view.FindObject("data");
  if (!model || !data) view.Fail("model", "is missing");
  const int64_t heads = model->Integer("heads", 1, kMost);
  const int64_t kv_heads = model->Integer("kv_heads", 0, kMost);  // 0: as many
  return Json({{"model_type", "llama"},
               {"vocab_size", model->Integer("vocab_size", 1, kMost)},
               {"hidden_size", model->Integer("hidden", 1, kMost)},
               {"intermediate_size", RowsOf(checkpoint, "model.layers.0.mlp.gate_proj.weight")},
               {"num_hidden_layers", model->Integer("layers", 1, kMost)},
               {"num_attention_heads", heads},
               {"num_key_value_heads", kv_heads == 0 ? heads : kv_heads},
               {"max_position_embeddings", data->Integer("sequence_length", 1, kMost)},
               {"rms_norm_eps", model->FindPositive("norm_eps").value_or(1e-5)},
               {"rope_theta", model->FindPositive("rope_theta").value_or(1e4)},
               {"tie_word_embeddings", model->Flag("tie_head", false)}})
      .dump();
}

}  // namespace

bool IsCheckpoint(io::FileSystem& fs, const std::string& path) {
  return io::IsDirectory(fs, path) &&
         (HasManifest(fs, path) || !AtomicDirectory(fs, path).Look().complete.empty());
}

infer::Conversion ConvertCheckpoint(io::FileSystem& fs, const std::string& path,
                                    const std::string& like, const std::string& output,
                                    infer::ConvertOptions options) {
  const zero::Checkpoint checkpoint(fs, Newest(fs, path));
  infer::ModelDescription description{.name = checkpoint.directory()};
  if (like.empty()) {
    description.config = ConfigOf(checkpoint);
    options.tokenizer = "bytes";
  } else {
    description.config = io::ReadFile(fs, like + "/config.json", kMostText);
    description.directory = like;
  }
  for (const zero::ParameterSpec& parameter : checkpoint.parameters()) {
    description.tensors.push_back({parameter.name, parameter.shape});
  }
  const infer::DescribedModel source(fs, std::move(description));
  infer::GgufExport file(fs, output, source, options);
  for (const std::string& name : source.tensors()) {
    if (!file.Wants(name)) continue;
    const std::vector<float> values = checkpoint.LoadFullParameter(name);
    file.Append(name, std::as_bytes(std::span(values)));
  }
  return file.Finish();
}

}  // namespace thinwire::app
