#include "thinwire/zero/memory.h"

namespace thinwire::zero {

comm::Image FlatImage(const UnitLayout& unit, DType dtype, std::byte* data) {
  return comm::MakeImage(data, dtype, {0, unit.matrix.size()}, {0, unit.vector.size()});
}

comm::Image SliceImage(const UnitLayout& unit, const comm::Topology& topology, DType dtype,
                       std::byte* data) {
  return comm::MakeImage(data, dtype, unit.matrix.Slice(topology.local()),
                         unit.vector.Slice(topology.local()));
}

Memory::Memory(const Plan& plan) {
  const DType compute = plan.options.compute;
  const bool kept = plan.recipe.kept == Kept::kValues;
  const bool codes = plan.recipe.kept == Kept::kCodes;
  const bool accumulates = plan.options.micro_batches > 1;
  const int local = plan.topology.local();
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const UnitLayout& unit = plan.units[u];
    const comm::Range matrix = unit.matrix.Shard(local, plan.topology.host());
    const comm::Range vector = unit.vector.Shard(local, plan.topology.host());
    const int64_t shard = AlignUp(comm::ImageBytes(DType::kF32, matrix, vector));
    const comm::Range matrix_slice = unit.matrix.Slice(local);
    const comm::Range vector_slice = unit.vector.Slice(local);
    const int64_t kept_bytes = kept ? AlignUp(comm::ImageBytes(compute, matrix_slice, vector_slice))
                               : codes ? plan.routes[u].code_bytes()
                                       : 0;
    const bool trained = unit.spec.trainable;
    const int64_t accumulator_bytes =
        accumulates && trained ? comm::ImageBytes(DType::kF32, matrix_slice, vector_slice) : 0;

    UnitMemory& held = units.emplace_back();
    held.storage = AlignedBuffer((trained ? 4 : 1) * shard + kept_bytes + accumulator_bytes);
    std::byte* at = held.storage.data();
    for (comm::Image* image : {&held.master, &held.m, &held.v, &held.gradient}) {
      if (!trained && image != &held.master) break;
      *image = comm::MakeImage(at, DType::kF32, matrix, vector);
      at += shard;
    }
    if (kept) held.kept = SliceImage(unit, plan.topology, compute, at);
    if (codes) held.codes = {at, static_cast<size_t>(kept_bytes)};
    at += kept_bytes;
    if (accumulates && trained) held.accumulator = SliceImage(unit, plan.topology, DType::kF32, at);
  }
  for (int i = 0; i < plan.unit_buffers; ++i) unit_buffers.emplace_back(plan.unit_bytes);
  if (plan.code_buffer_bytes > 0) {
    for (int i = 0; i < plan.unit_buffers; ++i) code_buffers.emplace_back(plan.code_buffer_bytes);
  }
  for (int i = 0; i < kGradientBuffers; ++i) gradient_buffers.emplace_back(plan.gradient_bytes);
  if (!accumulates) {
    for (int i = 0; i < kStagingBuffers; ++i) staging.emplace_back(4 * plan.slice_elements);
  }
}

}  // namespace thinwire::zero
