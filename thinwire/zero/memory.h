// Everything an engine holds on one rank, laid out once from the plan.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/comm/message_sizes.h"
#include "thinwire/comm/piece.h"
#include "thinwire/zero/plan.h"

namespace thinwire::zero {

// What a rank holds of one unit for the whole run.
struct UnitMemory {
  // fp32 images of the shard this rank owns.
  comm::Image master;
  // Without memory where the unit is frozen; of the states those that the optimizer keeps.
  comm::Image gradient;
  std::array<comm::Image, optim::kMostStates> states;
  // The slice of its host: kept weights in compute dtype, gradients of several micro-batches in
  // fp32; at stage 1 those of the whole unit. Without memory where the recipe, a frozen unit or one
  // micro-batch needs none.
  comm::Image kept, accumulator;
  // What the slow reduce owes, all of it and by chunk; empty where the recipe has no feedback.
  std::span<std::byte> residual;
  std::vector<comm::Residuals> residuals;
  std::span<std::byte> codes;  // the kept slice as codes, in place of `kept`
  AlignedBuffer storage;
  // Of the messages of each hop and chunk, where the hop's are entropy-coded.
  std::array<std::vector<comm::MessageSizes>, kHops> sizes;
};

struct Memory {
  std::vector<UnitMemory> units;
  // Full flats in compute dtype: those that units take turns in or, when they are resident, one per
  // unit.
  std::vector<AlignedBuffer> unit_buffers;
  std::vector<AlignedBuffer> code_buffers;      // Plan::code_buffers() of them
  std::vector<AlignedBuffer> gradient_buffers;  // the same, of units that are trained
  std::vector<AlignedBuffer> staging;           // fp32 slices between the reduce hops

  explicit Memory(const Plan& plan);
};

// A stretch of one parameter in the shard that the plan's rank owns.
struct OwnedPart {
  int unit = 0;
  int parameter = 0;   // index in UnitSpec::parameters
  int64_t offset = 0;  // of its first element in the parameter, flattened
  int64_t begin = 0;   // the same in its region of UnitMemory::master
  int64_t size = 0;

  // Its values in one of the unit's images of the shard; none where that has no memory.
  std::span<float> Of(const Plan& plan, const comm::Image& image) const;
};
// By unit and parameter, without empty ones.
std::vector<OwnedPart> OwnedParts(const Plan& plan);

// The whole flat of `unit` at `data`, in `dtype`, or in the type that the unit computes in.
comm::Image FlatImage(const UnitLayout& unit, DType dtype, std::byte* data);
inline comm::Image FlatImage(const UnitLayout& unit, std::byte* data) {
  return FlatImage(unit, unit.compute, data);
}
// The slice of the plan's rank of `unit` at `data`.
comm::Image SliceImage(const UnitLayout& unit, const comm::Topology& topology, DType dtype,
                       std::byte* data);

}  // namespace thinwire::zero
