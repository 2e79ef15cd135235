#include "thinwire/infer/gguf_export.h"

#include "thinwire/base/cpu_features.h"
#include "thinwire/base/error.h"

namespace thinwire::infer {

GgufExport::GgufExport(io::FileSystem& fs, const std::string& path, const ModelSource& source,
                       const ConvertOptions& options)
    : writer_(fs, path),
      plan_(PlanConversion(source, options, writer_)),
      team_(UsableCores()),
      scratch_(team_.threads()) {
  for (const TensorPlan& tensor : plan_.tensors) places_.emplace(tensor.rule.source, &tensor);
  writer_.Begin();
  if (!plan_.frequency_factors.empty()) {
    writer_.Append(kFrequencyFactors, std::as_bytes(std::span(plan_.frequency_factors)));
  }
}

void GgufExport::Append(const std::string& source, std::span<const std::byte> data) {
  const auto found = places_.find(source);
  THINWIRE_CHECK(found != places_.end(), source);
  ConvertedRows rows(*found->second, data, scratch_);
  rows.Each(team_, [&](std::span<const std::byte> piece) {
    writer_.Append(found->second->rule.target, piece);
  });
}

Conversion GgufExport::Finish() {
  writer_.Finish();
  return {.architecture = plan_.architecture,
          .tensors = static_cast<int64_t>(plan_.tensors.size()) + !plan_.frequency_factors.empty(),
          .tokens = plan_.tokens,
          .bytes = writer_.bytes(),
          .notes = plan_.notes};
}

}  // namespace thinwire::infer
