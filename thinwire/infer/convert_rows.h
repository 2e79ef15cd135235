// Rows of a converted tensor: in GGUF's order and type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <mutex>
#include <span>
#include <vector>

#include "thinwire/base/context.h"
#include "thinwire/base/thread_team.h"
#include "thinwire/infer/convert_plan.h"
#include "thinwire/infer/decoder_weights.h"

namespace thinwire::infer {

// Memory that one tensor after the other uses.
struct ConvertScratch {
  struct OfThread {
    std::vector<float> values;
    std::vector<std::byte> rows;
  };

  explicit ConvertScratch(int count) : threads(static_cast<size_t>(count)) {}

  ExecContext context;
  std::vector<std::byte> ordered;
  std::vector<OfThread> threads;
};

class ConvertedRows : public TensorRows {
 public:
  // `source` is all of a tensor in plan.from; all outlive this.
  ConvertedRows(const TensorPlan& plan, std::span<const std::byte> source, ConvertScratch& scratch);

  int64_t rows() const { return rows_; }
  // In the target's type.
  int64_t row_bytes() const;

  // Zeros in the place of what cannot be converted: see Check.
  std::span<const std::byte> Rows(int64_t begin, int64_t end, int thread) override;
  void Packed(std::span<const std::byte>) override {}
  // Throws UsageError naming the tensor and a value in it that the type does not hold.
  void Check() const;
  // Hands all of them to `take` in order, in pieces that `team` converts. Throws as Check.
  template <typename Take>
  void Each(ThreadTeam& team, const Take& take);

 private:
  void Convert(int64_t begin, int64_t end, ConvertScratch::OfThread& scratch) const;

  const TensorPlan& plan_;
  ConvertScratch& scratch_;
  std::span<const std::byte> ordered_;
  int64_t rows_, columns_;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

template <typename Take>
void ConvertedRows::Each(ThreadTeam& team, const Take& take) {
  constexpr int64_t kGrainElements = 1 << 15, kPieceElements = 1 << 22;
  const int64_t grain = std::max<int64_t>(1, kGrainElements / columns_);
  const int64_t piece = std::max(grain, kPieceElements / columns_);
  std::vector<std::byte> converted;
  for (int64_t first = 0; first < rows_; first += piece) {
    const int64_t count = std::min(piece, rows_ - first);
    converted.resize(static_cast<size_t>(count * row_bytes()));
    team.Run(count, grain, [&](int64_t begin, int64_t end, int thread) {
      std::ranges::copy(Rows(first + begin, first + end, thread),
                        converted.begin() + begin * row_bytes());
    });
    Check();
    take(std::span<const std::byte>(converted));
  }
}

}  // namespace thinwire::infer
