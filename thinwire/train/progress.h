// What a person sees while a run goes: one line that renews itself on a terminal, a line every now
// and then in a log.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "thinwire/train/metrics.h"

namespace thinwire::train {

class Progress {
 public:
  struct Options {
    int64_t first_step = 0;  // steps done before this run
    int64_t steps = 0;       // in all
    bool terminal = false;
    std::chrono::milliseconds log_interval{10'000};  // between lines in a log
  };

  Progress(std::FILE* out, const Options& options);

  void Step(const StepMetrics& metrics);
  // A line that stays.
  void Say(std::string_view text);
  // Ends the line that renews itself.
  void Finish();

  // "1:02:03", "2:03".
  static std::string Duration(double seconds);

 private:
  std::string LineOf(const StepMetrics& metrics);

  std::FILE* out_;
  Options options_;
  double elapsed_s_ = 0;
  double slow_bytes_per_param_ = 0;  // of all steps of this run
  double shown_at_s_ = -1e9;         // of elapsed_s_
  bool open_ = false;                // a line without its end stands on the terminal
};

}  // namespace thinwire::train
