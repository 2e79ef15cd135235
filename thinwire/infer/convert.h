// Conversion of a Hugging Face model (a directory with config.json, safetensors and tokenizer.json)
// to GGUF.
#pragma once

#include <string>

#include "thinwire/infer/convert_plan.h"
#include "thinwire/infer/gguf_export.h"
#include "thinwire/io/file.h"

namespace thinwire::infer {

// Reads one tensor at a time; the file appears whole or not at all. Throws UsageError as
// PlanConversion does; IoError.
Conversion ConvertHuggingFace(io::FileSystem& fs, const std::string& directory,
                              const std::string& output, const ConvertOptions& options);

}  // namespace thinwire::infer
