// The configuration of a training run: a JSON file, checked key by key, as structs.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/train/llama_config.h"
#include "thinwire/zero/options.h"

namespace thinwire::train {

struct DataConfig {
  std::vector<std::string> files;  // files, directories, globs
  int64_t sequence_length = 128;
  double evaluation_fraction = 0.05;
};

struct TrainingConfig {
  int64_t steps = 300;
  int64_t micro_batch = 1;    // sequences per rank and micro-batch
  int64_t micro_batches = 1;  // per optimizer step
  int64_t seed = 1;
  double learning_rate = 1e-3;
  int64_t warmup_steps = 20;
  double floor_ratio = 0.1;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double max_grad_norm = 1;
  std::string compute = "bf16";
  bool activation_checkpointing = false;
  int64_t evaluate_every = 100;
  int64_t evaluation_batches = 8;
};

struct ParallelConfig {
  int64_t hosts = 0;
  int64_t ranks_per_host = 0;
  std::string recipe = "zero3";
  std::string wire = "compute";
  double loss_budget = 0.25;
  int64_t review_steps = 500;
  int64_t prefetch = 2;
  int64_t chunk_bytes = 4 << 20;
  int64_t full_weights_every = 512;
  bool checksum = false;
  bool shared_memory = true;
  double deadline_s = 60;
  std::string interface;
};

struct OutputConfig {
  std::string directory = "out";
  int64_t save_every = 0;
  bool save_last = true;
  std::string trace;
  std::string trace_steps;
  int64_t keep = 2;
};

struct Config {
  LlamaConfig model;
  DataConfig data;
  TrainingConfig training;
  ParallelConfig parallel;
  OutputConfig output;
};

// Reads `path`, then each override "section.key=value" (a JSON value, or text that is none). Every
// fault is a UsageError of one line that names the key, what was expected and what was found.
Config LoadConfig(const std::string& path, std::span<const std::string> overrides = {});
// The same from text; `source` names it in errors.
Config ParseConfig(std::string_view json, std::string_view source,
                   std::span<const std::string> overrides = {});

// The config as JSON text that ParseConfig reads back.
std::string ToJson(const Config& config);

struct KeyValue {
  std::string path;   // "training.steps"
  std::string value;  // as JSON text
};
// The keys that must be equal on all ranks: not paths and the interface, which may differ between
// machines.
std::vector<KeyValue> SharedKeys(const Config& config);
// Of SharedKeys().
uint64_t ConfigHash(const Config& config);

// Every key with its type, default and meaning: the table in docs/config.md, and the same for a
// terminal.
std::string ConfigTable();
std::string ConfigHelp();

zero::EngineOptions EngineOptionsOf(const Config& config);
std::chrono::milliseconds DeadlineOf(const Config& config);

}  // namespace thinwire::train
