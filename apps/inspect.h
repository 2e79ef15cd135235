// `thinwire inspect`: what a GGUF file, a safetensors file or a checkpoint holds.
#pragma once

#include <iosfwd>
#include <string>

#include "thinwire/io/file.h"

namespace thinwire::app {

// `path` is a GGUF or safetensors file, a checkpoint (a directory with a manifest) or a directory
// of checkpoints, of which the newest is shown. With `verify` the files of a checkpoint are read
// against their checksums. Throws UsageError when it is none of these or malformed.
void Inspect(io::FileSystem& fs, const std::string& path, bool verify, std::ostream& out);

}  // namespace thinwire::app
