// What encoder and decoder do alike: norms, and attention to a sound over planned memory.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "thinwire/base/context.h"
#include "thinwire/base/memory_plan.h"
#include "thinwire/base/thread_team.h"
#include "thinwire/kernels/attention.h"
#include "thinwire/speech/whisper_weights.h"

namespace thinwire::speech {

// y = (x - mean) / sqrt(variance + 1e-5) * weight + bias for rows of norm.weight.size() elements.
void Normalize(const ExecContext& context, const NormWeights& norm, int64_t rows, const float* x,
               float* y);

// Keys and values of a sound in one layer or several, in pages one behind the other.
class SoundCache {
 public:
  // Of `positions` positions, which all queries see.
  SoundCache(const kernels::HeadsShape& heads, int64_t layers, int64_t positions, ThreadTeam& team);
  SoundCache(const SoundCache&) = delete;
  SoundCache& operator=(const SoundCache&) = delete;

  void Plan(std::string_view what, MemoryPlan& plan);
  // After Take.
  void NumberPages();

  // Rows of all positions, [position][heads * dim].
  void Store(int64_t layer, const float* keys, const float* values);
  // x = attention with rows of x as queries, [row][heads * dim].
  void Attend(int64_t layer, int64_t rows, float* x);

 private:
  kernels::CachedSequence Layer(int64_t layer) const;

  const kernels::HeadsShape heads_;
  const int64_t layers_, positions_, page_count_;
  ThreadTeam& team_;
  const ExecContext context_;
  int64_t scratch_floats_ = 0;  // of one thread
  std::span<std::byte> memory_;
  std::span<int32_t> pages_;
  std::span<float> scratch_;
};

}  // namespace thinwire::speech
