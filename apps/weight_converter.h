// Pieces of a tensor from one weight type to another, in all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "thinwire/base/context.h"
#include "thinwire/base/thread_team.h"
#include "thinwire/base/weight_type.h"
#include "thinwire/io/gguf_format.h"

namespace thinwire::app {

struct Conversion {
  const io::GgufTensor& tensor;
  WeightType type;
  std::span<const float> importance;  // see Importances::Of
};

// Sums over all weights that were converted.
struct ConversionError {
  double missed = 0;   // of squared differences
  double squares = 0;  // of squared weights
};

class WeightConverter {
 public:
  explicit WeightConverter(int threads);

  // `rows` rows from `first` on. The span lives until the next call. Throws UsageError naming the
  // weight that blocks::Encode refuses.
  std::span<const std::byte> Convert(const Conversion& conversion, int64_t first, int64_t rows,
                                     ConversionError& error);

 private:
  struct Scratch {
    std::vector<float> values;
    std::vector<float> decoded;
  };

  void ConvertRows(const Conversion& conversion, int64_t begin, int64_t end,
                   std::span<std::byte> out, Scratch& scratch, ConversionError& error);

  const ExecContext context_;
  ThreadTeam team_;
  std::vector<Scratch> scratch_;  // of each thread
  std::vector<std::byte> out_;
  std::mutex mutex_;
};

}  // namespace thinwire::app
