#include "thinwire/train/progress.h"

#include <array>
#include <cmath>

namespace thinwire::train {
namespace {

template <typename... Args>
std::string Format(const char* format, Args... args) {
  std::array<char, 256> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, args...);
  return buffer.data();
}

}  // namespace

Progress::Progress(std::FILE* out, const Options& options) : out_(out), options_(options) {}

std::string Progress::Duration(double seconds) {
  const auto s = static_cast<long long>(std::llround(seconds));
  if (s >= 3600) return Format("%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  return Format("%lld:%02lld", s / 60, s % 60);
}

std::string Progress::LineOf(const StepMetrics& metrics) {
  const auto done = static_cast<double>(metrics.step - options_.first_step);
  const auto left = static_cast<double>(options_.steps - metrics.step);
  std::string line = Format(
      "step %lld/%lld  loss %.4f  %.0f tokens/s  %.3f s/step", static_cast<long long>(metrics.step),
      static_cast<long long>(options_.steps), metrics.loss, metrics.tokens_per_s, metrics.seconds);
  // The mean of the run: what one step counts has part of its neighbours' pushes.
  if (slow_bytes_per_param_ > 0) {
    line += Format("  %.2f bytes/param on the slow link", slow_bytes_per_param_ / done);
  }
  line += "  " + Duration(elapsed_s_ / done * left) + " left";
  if (!metrics.applied) line += "  skipped: gradient not finite";
  return line;
}

void Progress::Step(const StepMetrics& metrics) {
  elapsed_s_ += metrics.seconds;
  slow_bytes_per_param_ += metrics.slow_bytes_per_param;
  // A terminal shows ten lines a second at most, a log the first, the last and one per interval.
  const double interval =
      options_.terminal ? 0.1 : std::chrono::duration<double>(options_.log_interval).count();
  if (elapsed_s_ - shown_at_s_ < interval && metrics.step != options_.steps && metrics.applied) {
    return;
  }
  shown_at_s_ = elapsed_s_;
  const std::string line = LineOf(metrics);
  if (options_.terminal) {
    std::fprintf(out_, "\r\x1b[K%s", line.c_str());
    open_ = true;
  } else {
    std::fprintf(out_, "%s\n", line.c_str());
  }
  std::fflush(out_);
}

void Progress::Say(std::string_view text) {
  Finish();
  std::fprintf(out_, "%.*s\n", static_cast<int>(text.size()), text.data());
  std::fflush(out_);
}

void Progress::Finish() {
  if (open_) std::fprintf(out_, "\n");
  open_ = false;
  std::fflush(out_);
}

}  // namespace thinwire::train
