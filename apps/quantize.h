// `thinwire quantize`: a GGUF file with its weights in another type.
#pragma once

#include <CLI/CLI.hpp>
#include <iosfwd>
#include <string>
#include <vector>

#include "thinwire/io/file.h"

namespace thinwire::app {

struct QuantizeRequest {
  std::string in;
  std::string out;
  std::string recipe;                // see infer::PlanQuantize
  std::vector<std::string> tensors;  // PATTERN=TYPE
  std::string importance;            // path of a file for Importances; empty: all columns alike
  int threads = 0;                   // 0: one per core
  bool dry_run = false;              // say what would be written, and write nothing
};

// Adds the options of the command; they are read into `request`.
void AddQuantizeOptions(CLI::App& command, QuantizeRequest& request);

// Streams: in memory are a few megabytes of one tensor, decoded and encoded. `out` appears whole or
// not at all. A line of progress goes to `progress` where that is not null.
//
// Throws UsageError when `out` is `in`, and for what infer::PlanQuantize and blocks::Encode refuse.
void Quantize(io::FileSystem& fs, const QuantizeRequest& request, std::ostream& out,
              std::ostream* progress);

}  // namespace thinwire::app
