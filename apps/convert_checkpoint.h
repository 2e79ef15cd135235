// A training checkpoint as a GGUF file.
#pragma once

#include <string>

#include "thinwire/infer/convert.h"
#include "thinwire/io/file.h"

namespace thinwire::app {

// Whether `path` is a checkpoint or a directory of them.
bool IsCheckpoint(io::FileSystem& fs, const std::string& path);

// Of the checkpoint, or the newest in a directory of them. Without `like` it is one of
// thinwire-train, whose tokens are bytes; else `like` has the model's config.json and its
// tokenizer. Throws UsageError naming what is missing or differs.
infer::Conversion ConvertCheckpoint(io::FileSystem& fs, const std::string& path,
                                    const std::string& like, const std::string& output,
                                    infer::ConvertOptions options);

}  // namespace thinwire::app
