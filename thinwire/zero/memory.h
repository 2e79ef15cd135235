// Everything an engine holds on one rank, laid out once from the plan.
#pragma once

#include <vector>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/comm/piece.h"
#include "thinwire/zero/plan.h"

namespace thinwire::zero {

// What a rank holds of one unit for the whole run.
struct UnitMemory {
  // fp32 images of the shard this rank owns.
  comm::Image master;
  comm::Image m, v, gradient;  // without memory where the unit is frozen
  // The slice of its host: kept weights in compute dtype, gradients of several micro-batches in
  // fp32. Without memory where the recipe, a frozen unit or one micro-batch needs none.
  comm::Image kept, accumulator;
  std::span<std::byte> codes;  // the kept slice as codes, in place of `kept`
  AlignedBuffer storage;
};

struct Memory {
  std::vector<UnitMemory> units;
  std::vector<AlignedBuffer> unit_buffers;      // full flats in compute dtype
  std::vector<AlignedBuffer> code_buffers;      // with each, when codes are passed on and not kept
  std::vector<AlignedBuffer> gradient_buffers;  // the same, of units that are trained
  std::vector<AlignedBuffer> staging;           // fp32 slices between the reduce hops

  explicit Memory(const Plan& plan);
};

// The whole flat of `unit` at `data`, in `dtype`.
comm::Image FlatImage(const UnitLayout& unit, DType dtype, std::byte* data);
// The slice of the plan's rank of `unit` at `data`.
comm::Image SliceImage(const UnitLayout& unit, const comm::Topology& topology, DType dtype,
                       std::byte* data);

}  // namespace thinwire::zero
