// metrics.jsonl: one JSON object per line, one line per optimizer step and per evaluation.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace thinwire::train {

struct StepMetrics {
  int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  double seconds = 0;
  double tokens_per_s = 0;  // of all ranks
  // Payload that this host sent between the ends of two steps. Pushes of a step go on into the next
  // one, so that only means over steps are those of the recipe.
  double slow_bytes_per_param = 0;
  bool applied = true;
};

class MetricsLog {
 public:
  // Appends to `path`. Lines of steps after `resumed_step`, which will be taken again, are dropped;
  // with 0 the file starts empty. Throws IoError.
  MetricsLog(const std::string& path, int64_t resumed_step);

  void Step(const StepMetrics& metrics);
  void Evaluation(int64_t step, double loss);

 private:
  void Write(const std::string& line);

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
};

}  // namespace thinwire::train
