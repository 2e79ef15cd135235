#include "thinwire/train/config.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/planner/pilot.h"
#include "thinwire/train/config_keys.h"
#include "thinwire/train/config_reader.h"
#include "thinwire/zero/recipe.h"

namespace thinwire::train {
namespace {

nlohmann::ordered_json ValueOf(const Field& field) {
  return std::visit([](const auto* value) { return nlohmann::ordered_json(*value); }, field);
}

// As the file would say it: sizes that follow from others are 0.
Config Defaults() {
  Config config;
  config.model.kv_heads = 0;
  config.model.intermediate = 0;
  return config;
}

// What no single key can say.
void CheckTogether(Config& config, std::string_view source) {
  LlamaConfig& model = config.model;
  const auto require = [&](bool holds, const auto&... parts) {
    if (!holds) throw UsageError(StrCat(source, ": ", parts...));
  };
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.intermediate == 0) model.intermediate = ((model.hidden * 8 + 2) / 3 + 31) / 32 * 32;
  require(model.hidden % model.heads == 0, "model.heads = ", model.heads,
          " does not divide model.hidden = ", model.hidden);
  require(model.head_dim() % 2 == 0, "model.hidden / model.heads = ", model.head_dim(),
          " must be even for rotary embedding; change model.heads");
  require(model.heads % model.kv_heads == 0, "model.kv_heads = ", model.kv_heads,
          " does not divide model.heads = ", model.heads);
  require(!config.data.files.empty(),
          "data.files is missing: name text files, directories or globs, e.g. [\"corpus/\"]");
  require(config.training.warmup_steps <= config.training.steps,
          "training.warmup_steps = ", config.training.warmup_steps,
          " exceeds training.steps = ", config.training.steps);
  require(config.training.evaluate_every == 0 || config.data.evaluation_fraction > 0,
          "training.evaluate_every = ", config.training.evaluate_every,
          " but data.evaluation_fraction is 0; set one of them");
  require(!config.output.directory.empty(), "output.directory is empty");
  if (config.parallel.recipe == planner::kAuto) return;
  try {
    zero::MakeRecipe(config.parallel.recipe, DType::kBF16);
  } catch (const UsageError& error) {
    require(false, error.what());
  }
}

DType DTypeNamed(std::string_view name) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (NameOf(dtype) == name) return dtype;
  }
  THINWIRE_CHECK(false, name);
}

std::string Override(const std::string& text) {
  const size_t equals = text.find('='), dot = text.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals) {
    throw UsageError(
        StrCat("--set ", text, ": expected section.key=value, e.g. training.steps=100"));
  }
  const std::string value = text.substr(equals + 1);
  const bool is_json = nlohmann::json::accept(value);
  nlohmann::json section;
  section[text.substr(dot + 1, equals - dot - 1)] =
      is_json ? nlohmann::json("%") : nlohmann::json(value);
  nlohmann::json whole;
  whole[text.substr(0, dot)] = section;
  std::string json = whole.dump();
  // The value's own text, so that a number keeps every digit for the checks to come.
  if (is_json) json.replace(json.rfind("\"%\""), 3, value);
  return json;
}

}  // namespace

Config ParseConfig(std::string_view json, std::string_view source,
                   std::span<const std::string> overrides) {
  Config config = Defaults();
  ReadInto(config, json, source);
  for (const std::string& text : overrides) {
    ReadInto(config, Override(text), StrCat("--set ", text));
  }
  CheckTogether(config, source);
  return config;
}

Config LoadConfig(const std::string& path, std::span<const std::string> overrides) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) throw UsageError(StrCat(path, ": cannot be read; give the path of a JSON config"));
  return ParseConfig(text.str(), path, overrides);
}

std::string ToJson(const Config& config) {
  Config copy = config;
  nlohmann::ordered_json json;
  for (const ConfigKey& key : KeysOf(copy)) {
    json[std::string(key.section)][std::string(key.name)] = ValueOf(key.field);
  }
  return json.dump(2) + "\n";
}

std::vector<KeyValue> SharedKeys(const Config& config) {
  Config copy = config;
  std::vector<KeyValue> shared;
  for (const ConfigKey& key : KeysOf(copy)) {
    if (key.shared) shared.push_back({key.path(), ValueOf(key.field).dump()});
  }
  return shared;
}

uint64_t ConfigHash(const Config& config) {
  uint64_t hash = 0;
  for (const auto& [path, value] : SharedKeys(config)) {
    hash = HashBytes(value, HashBytes(path, hash));
  }
  return hash;
}

std::string ConfigHelp() {
  Config defaults = Defaults();
  std::ostringstream text;
  for (const ConfigKey& key : KeysOf(defaults)) {
    text << "  " << std::left << std::setw(34) << key.path() << std::setw(9)
         << ValueOf(key.field).dump() << " " << key.meaning << "\n";
  }
  return text.str();
}

std::string ConfigTable() {
  Config defaults = Defaults();
  std::ostringstream table;
  table << "| key | type | default | meaning |\n|---|---|---|---|\n";
  for (const ConfigKey& key : KeysOf(defaults)) {
    std::string choices;
    for (const std::string& choice : key.choices) {
      choices += StrCat(choices.empty() ? "" : ", ", "`", choice, "`");
    }
    table << "| `" << key.path() << "` | " << (choices.empty() ? key.type() : choices) << " | `"
          << ValueOf(key.field).dump() << "` | " << key.meaning << " |\n";
  }
  return table.str();
}

zero::EngineOptions EngineOptionsOf(const Config& config) {
  const TrainingConfig& training = config.training;
  const ParallelConfig& parallel = config.parallel;
  const std::string& wire = parallel.wire == "compute" ? training.compute : parallel.wire;
  return {
      .recipe = parallel.recipe,
      .compute = DTypeNamed(training.compute),
      .wire = DTypeNamed(wire),
      .micro_batches = static_cast<int>(training.micro_batches),
      .prefetch = static_cast<int>(parallel.prefetch),
      .chunk_bytes = parallel.chunk_bytes,
      .max_grad_norm = static_cast<float>(training.max_grad_norm),
      .groups = zero::DecayMatricesOnly({.weight_decay = static_cast<float>(training.weight_decay),
                                         .beta1 = static_cast<float>(training.beta1),
                                         .beta2 = static_cast<float>(training.beta2),
                                         .eps = static_cast<float>(training.epsilon)}),
      .full_weights_every = parallel.full_weights_every,
      .checksum = parallel.checksum,
      .deadline = DeadlineOf(config)};
}

std::chrono::milliseconds DeadlineOf(const Config& config) {
  return std::chrono::milliseconds(std::llround(config.parallel.deadline_s * 1000));
}

}  // namespace thinwire::train
