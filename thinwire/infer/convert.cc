#include "thinwire/infer/convert.h"

namespace thinwire::infer {

Conversion ConvertHuggingFace(io::FileSystem& fs, const std::string& directory,
                              const std::string& output, const ConvertOptions& options) {
  const ModelDirectory model(fs, directory);
  GgufExport file(fs, output, model, options);
  for (const std::string& name : model.tensors()) {
    if (file.Wants(name)) file.Append(name, model.Read(name));
  }
  return file.Finish();
}

}  // namespace thinwire::infer
