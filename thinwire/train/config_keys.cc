#include "thinwire/train/config_keys.h"

namespace thinwire::train {
namespace {

// Extents beyond this make no model; their products stay far from 2^63.
constexpr double kMostExtent = 1 << 20;
constexpr double kMostCount = 1e12;
// The smallest normal fp32, since the engine computes in it.
constexpr double kLeastPositive = 1.1754944e-38;

void AddModel(LlamaConfig& model, std::vector<ConfigKey>& keys) {
  const auto add = [&](std::string_view name, Field field, std::string_view meaning,
                       double least = 0, double most = 0) {
    keys.push_back({"model", name, field, meaning, least, most});
  };
  add("vocab_size", &model.vocab_size,
      "Rows of the embedding. Bytes and the document separator take 257.", 257, kMostExtent);
  add("hidden", &model.hidden, "Width of the residual stream.", 2, kMostExtent);
  add("layers", &model.layers, "Transformer blocks.", 1, 10000);
  add("heads", &model.heads, "Attention heads; divides `hidden` into an even head size.", 1,
      kMostExtent);
  add("kv_heads", &model.kv_heads, "Heads of keys and values; divides `heads`. 0: as many.", 0,
      kMostExtent);
  add("intermediate", &model.intermediate,
      "Width of the feed-forward layer. 0: 8/3 of `hidden`, rounded up to a multiple of 32.", 0,
      kMostExtent);
  add("rope_theta", &model.rope_theta, "Base of rotary embedding.", 1, 1e12);
  add("norm_eps", &model.norm_eps, "Added to the mean square in RMSNorm.", kLeastPositive, 1);
  add("tie_head", &model.tie_head, "The head uses the embedding's weights.");
}

void AddData(DataConfig& data, std::vector<ConfigKey>& keys) {
  keys.push_back({.section = "data",
                  .name = "files",
                  .field = &data.files,
                  .meaning = "Text files, directories (all text files below them) and globs; one "
                             "string is a list of one.",
                  .shared = false});
  keys.push_back(
      {"data", "sequence_length", &data.sequence_length, "Tokens per sequence.", 1, kMostExtent});
  keys.push_back({"data", "evaluation_fraction", &data.evaluation_fraction,
                  "The last part of the data, kept for evaluation. 0: no evaluation.", 0, 0.5});
}

void AddTraining(TrainingConfig& training, std::vector<ConfigKey>& keys) {
  const auto add = [&](std::string_view name, Field field, std::string_view meaning,
                       double least = 0, double most = 0) {
    keys.push_back({"training", name, field, meaning, least, most});
  };
  add("steps", &training.steps, "Optimizer steps.", 1, kMostCount);
  add("micro_batch", &training.micro_batch, "Sequences per rank in one forward pass.", 1,
      kMostExtent);
  add("micro_batches", &training.micro_batches,
      "Forward and backward passes per optimizer step (gradient accumulation).", 1, kMostExtent);
  add("seed", &training.seed, "Of the initial weights and the order of the data.", 0, 9e15);
  add("learning_rate", &training.learning_rate, "At the end of the warm-up.", kLeastPositive, 10);
  add("warmup_steps", &training.warmup_steps, "Steps of linear warm-up.", 0, kMostCount);
  add("floor_ratio", &training.floor_ratio, "Where the cosine ends, as a part of `learning_rate`.",
      0, 1);
  add("weight_decay", &training.weight_decay, "AdamW's, on matrices.", 0, 10);
  add("beta1", &training.beta1, "AdamW's average of gradients.", 0, 0.999999);
  add("beta2", &training.beta2, "AdamW's average of squares.", 0, 0.999999);
  add("epsilon", &training.epsilon, "AdamW's, in the denominator.", kLeastPositive, 1);
  add("max_grad_norm", &training.max_grad_norm,
      "Clips the global norm of the gradient. 0: no clipping.", 0, 1e30);
  keys.push_back({.section = "training",
                  .name = "compute",
                  .field = &training.compute,
                  .meaning = "Type of weights, activations and gradients in a pass.",
                  .choices = {"bf16", "fp32", "fp16"}});
  add("activation_checkpointing", &training.activation_checkpointing,
      "Keeps only each block's input and computes the rest again in backward.");
  add("evaluate_every", &training.evaluate_every,
      "Steps between evaluations; the last step is always evaluated. 0: never.", 0, kMostCount);
  add("evaluation_batches", &training.evaluation_batches,
      "Micro-batches per rank in one evaluation.", 1, kMostExtent);
}

void AddParallel(ParallelConfig& parallel, std::vector<ConfigKey>& keys) {
  const auto add = [&](std::string_view name, Field field, std::string_view meaning, double least,
                       double most) {
    keys.push_back({"parallel", name, field, meaning, least, most});
  };
  add("hosts", &parallel.hosts, "Hosts joined by the slow link. 0: detected.", 0, kMostExtent);
  add("ranks_per_host", &parallel.ranks_per_host, "Processes per host. 0: detected.", 0,
      kMostExtent);
  keys.push_back({.section = "parallel",
                  .name = "recipe",
                  .field = &parallel.recipe,
                  .meaning = "`zero3`, `hpz`, `zero++` or another: what is sent over each link and "
                             "what is kept; see [recipes](recipes.md). `auto`: the fastest within "
                             "`loss_budget` on the links at hand; see [planner](planner.md)."});
  add("loss_budget", &parallel.loss_budget,
      "With `auto`: percent by which a recipe may be expected to raise the loss.", 0, 100);
  add("review_steps", &parallel.review_steps,
      "With `auto`: steps between looks at the choice, from what steps and links have taken. 0: "
      "never.",
      0, kMostCount);
  keys.push_back({.section = "parallel",
                  .name = "wire",
                  .field = &parallel.wire,
                  .meaning = "Type of what is sent. `compute`: as `training.compute`.",
                  .choices = {"compute", "bf16", "fp32", "fp16"}});
  add("prefetch", &parallel.prefetch, "Units gathered ahead of the one in use.", 0, 1000);
  add("chunk_bytes", &parallel.chunk_bytes, "A message carries at most about this much.", 4096,
      1 << 30);
  add("full_weights_every", &parallel.full_weights_every,
      "Steps from one sending of a unit's full values to the next, where the recipe sends "
      "differences; at least 500 for its bytes.",
      1, 1 << 30);
  keys.push_back({.section = "parallel",
                  .name = "checksum",
                  .field = &parallel.checksum,
                  .meaning = "Messages carry a CRC-32C; one that arrives damaged ends the run. See "
                             "[cluster](cluster.md)."});
  keys.push_back({.section = "parallel",
                  .name = "shared_memory",
                  .field = &parallel.shared_memory,
                  .meaning = "Ranks of one host send each other messages through memory that they "
                             "share, where the system lets them. See [cluster](cluster.md).",
                  .shared = false});
  add("deadline_s", &parallel.deadline_s,
      "Seconds without a sign of life of a peer until the run ends with an error.", 0.1, 86400);
  keys.push_back({.section = "parallel",
                  .name = "interface",
                  .field = &parallel.interface,
                  .meaning = "Network interface, e.g. `eth0`. Empty: the launcher's.",
                  .shared = false});
}

void AddOutput(OutputConfig& output, std::vector<ConfigKey>& keys) {
  keys.push_back({.section = "output",
                  .name = "directory",
                  .field = &output.directory,
                  .meaning = "Gets metrics.jsonl, summary.json and checkpoints.",
                  .shared = false});
  keys.push_back({"output", "save_every", &output.save_every,
                  "Steps between checkpoints. 0: only the last step, see `save_last`.", 0,
                  kMostCount});
  keys.push_back({"output", "save_last", &output.save_last,
                  "Saves the last step, also of a run that was asked to stop."});
  keys.push_back(
      {"output", "keep", &output.keep, "Checkpoints that are kept, the newest.", 1, 1000000});
  keys.push_back({.section = "output",
                  .name = "trace",
                  .field = &output.trace,
                  .meaning = "Gets a Chrome trace of some steps: what computes, what is sent and "
                             "what waits for what, on all ranks. Empty: none. See "
                             "[observing](observing.md).",
                  .shared = false});
  keys.push_back({.section = "output",
                  .name = "trace_steps",
                  .field = &output.trace_steps,
                  .meaning = "Steps in it, e.g. `5..8`. Empty: the third to the sixth of a run.",
                  .shared = false});
}

}  // namespace

std::string ConfigKey::path() const { return std::string(section) + "." + std::string(name); }

std::string_view ConfigKey::type() const {
  constexpr std::string_view kTypes[] = {"integer", "number", "boolean", "string",
                                         "list of strings"};
  return kTypes[field.index()];
}

const std::vector<std::string>& SectionNames() {
  static const std::vector<std::string> names = {"model", "data", "training", "parallel", "output"};
  return names;
}

std::vector<ConfigKey> KeysOf(Config& config) {
  std::vector<ConfigKey> keys;
  AddModel(config.model, keys);
  AddData(config.data, keys);
  AddTraining(config.training, keys);
  AddParallel(config.parallel, keys);
  AddOutput(config.output, keys);
  return keys;
}

}  // namespace thinwire::train
