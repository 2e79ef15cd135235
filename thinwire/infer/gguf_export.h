// A GGUF file of a model whose tensors come one by one, as Hugging Face's libraries have them.
//
//   GgufExport file(fs, "model.gguf", source, options)
//   for (const std::string& name : source.tensors()) if (file.Wants(name)) file.Append(name, bytes)
//   file.Finish()
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/thread_team.h"
#include "thinwire/infer/convert_rows.h"

namespace thinwire::infer {

struct Conversion {
  std::string architecture;
  int64_t tensors = 0;
  int64_t tokens = 0;
  int64_t bytes = 0;               // of the file
  std::vector<std::string> notes;  // see QuantizePlan
};

class GgufExport {
 public:
  // Creates the file. Throws UsageError as PlanConversion does, IoError without room.
  GgufExport(io::FileSystem& fs, const std::string& path, const ModelSource& source,
             const ConvertOptions& options);

  const ConversionPlan& plan() const { return plan_; }
  // Whether a tensor of the source has a place in the file.
  bool Wants(const std::string& source) const { return places_.contains(source); }
  // All of a tensor, in the type that the source says it has, in the order of the source. Throws
  // UsageError naming a value that the type does not hold.
  void Append(const std::string& source, std::span<const std::byte> data);
  // When all are there: the file appears.
  Conversion Finish();

 private:
  io::GgufWriter writer_;
  const ConversionPlan plan_;
  std::map<std::string, const TensorPlan*> places_;
  ThreadTeam team_;
  ConvertScratch scratch_;
};

}  // namespace thinwire::infer
