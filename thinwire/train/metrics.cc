#include "thinwire/train/metrics.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/io/file.h"

namespace thinwire::train {
namespace {

using nlohmann::ordered_json;

// JSON has no NaN; null says that there was no number.
ordered_json NumberOrNull(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

std::string LinesUpTo(const std::string& path, int64_t step) {
  std::ifstream file(path);
  std::string line, kept;
  while (step > 0 && std::getline(file, line)) {
    const auto json = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.value("step", int64_t{0}) > step) continue;
    kept += line + "\n";
  }
  return kept;
}

}  // namespace

MetricsLog::MetricsLog(const std::string& path, int64_t resumed_step) : path_(path) {
  io::WriteFileAtomically(io::RealFileSystem(), path, LinesUpTo(path, resumed_step));
  file_.reset(std::fopen(path.c_str(), "a"));
  if (!file_) throw IoError(StrCat(path, ": ", std::strerror(errno)));
}

void MetricsLog::Step(const StepMetrics& metrics) {
  Write(ordered_json{{"step", metrics.step},
                     {"loss", NumberOrNull(metrics.loss)},
                     {"grad_norm", NumberOrNull(metrics.grad_norm)},
                     {"lr", metrics.lr},
                     {"seconds", metrics.seconds},
                     {"tokens_per_s", metrics.tokens_per_s},
                     {"slow_bytes_per_param", metrics.slow_bytes_per_param},
                     {"applied", metrics.applied}}
            .dump());
}

void MetricsLog::Evaluation(int64_t step, double loss) {
  Write(ordered_json{{"step", step}, {"evaluation_loss", NumberOrNull(loss)}}.dump());
}

void MetricsLog::Write(const std::string& line) {
  const bool written = std::fprintf(file_.get(), "%s\n", line.c_str()) > 0;
  if (!written || std::fflush(file_.get()) != 0) {
    throw IoError(StrCat(path_, ": ", std::strerror(errno)));
  }
}

}  // namespace thinwire::train
