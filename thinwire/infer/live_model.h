// An engine whose weights come from elsewhere than a file: tensors by name, as Hugging Face's
// libraries have them, as often as they change.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "thinwire/infer/convert_rows.h"
#include "thinwire/infer/engine.h"

namespace thinwire::infer {

class LiveModel {
 public:
  // Throws UsageError as PlanConversion and Engine do. The weights are zero until they are set.
  LiveModel(io::FileSystem& fs, const ModelSource& source, const ConvertOptions& options,
            const EngineOptions& engine);

  // Its spec, memory and tokenizer are those of a file that GgufExport would write.
  Engine& engine() { return *engine_; }
  const ConversionPlan& plan() const { return plan_; }
  // Whether a tensor of the source has a place in it.
  bool Wants(const std::string& source) const { return places_.contains(source); }

  // Nothing may run from Begin to End. Set takes all of a tensor in fp32, and no memory after the
  // first time. End throws UsageError naming a tensor that was not set.
  void Begin();
  void Set(const std::string& source, std::span<const float> values);
  void End();

 private:
  void Reserve(const TensorPlan& tensor);

  ConversionPlan plan_;
  std::map<std::string, const TensorPlan*> places_;
  std::unique_ptr<Engine> engine_;
  ConvertScratch scratch_;
  std::set<std::string> missing_;
};

}  // namespace thinwire::infer
