#include "thinwire/zero/memory.h"

#include <algorithm>

namespace thinwire::zero {

comm::Image FlatImage(const UnitLayout& unit, DType dtype, std::byte* data) {
  return comm::MakeImage(data, dtype, {0, unit.matrix.size()}, {0, unit.vector.size()});
}

comm::Image SliceImage(const UnitLayout& unit, const comm::Topology& topology, DType dtype,
                       std::byte* data) {
  return comm::MakeImage(data, dtype, unit.matrix.Slice(topology.local()),
                         unit.vector.Slice(topology.local()));
}

std::span<float> OwnedPart::Of(const Plan& plan, const comm::Image& image) const {
  const UnitLayout& layout = plan.units[static_cast<size_t>(unit)];
  const bool matrix = layout.places[static_cast<size_t>(parameter)].matrix;
  const Array& all = matrix ? image.matrix : image.vector;
  if (all.size == 0) return {};
  return all.Sub(begin, size).As<float>();
}

std::vector<OwnedPart> OwnedParts(const Plan& plan) {
  std::vector<OwnedPart> parts;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const UnitLayout& unit = plan.units[u];
    for (size_t p = 0; p < unit.places.size(); ++p) {
      const ParameterPlace& place = unit.places[p];
      const comm::Partition& region = place.matrix ? unit.matrix : unit.vector;
      const comm::Range shard = region.Shard(plan.topology.local(), plan.topology.host());
      const int64_t start = place.offset - (place.matrix ? 0 : unit.matrix.size());
      const int64_t begin = std::max(start, shard.begin);
      const int64_t end = std::min(start + place.numel, shard.end);
      if (begin >= end) continue;
      parts.push_back({static_cast<int>(u), static_cast<int>(p), begin - start, begin - shard.begin,
                       end - begin});
    }
  }
  return parts;
}

namespace {

// As many exchanges of a hop are in flight as its lane has in its window.
std::array<std::vector<comm::MessageSizes>, kHops> SizesFor(const Routes& routes) {
  std::array<std::vector<comm::MessageSizes>, kHops> sizes;
  for (const Hop hop : {Hop::kSlowGather, Hop::kFastGather, Hop::kFastReduce, Hop::kSlowReduce}) {
    for (const comm::ExchangeShape& chunk : routes.of(hop)) {
      if (!chunk.coded()) continue;
      sizes[Index(hop)].emplace_back(chunk.members(), IsSlow(hop) ? kSlowWindow : kFastWindow);
    }
  }
  return sizes;
}

}  // namespace

Memory::Memory(const Plan& plan) {
  const bool kept = plan.keeps_slice();
  const bool codes = plan.recipe.kept == Kept::kCodes;
  const bool slices = plan.accumulates_slices();
  const int local = plan.topology.local();
  const size_t states = plan.options.optimizer->states().size();
  THINWIRE_CHECK(states <= optim::kMostStates, plan.options.optimizer->name(), " keeps ", states);
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const UnitLayout& unit = plan.units[u];
    const comm::Range matrix = unit.matrix.Shard(local, plan.topology.host());
    const comm::Range vector = unit.vector.Shard(local, plan.topology.host());
    const int64_t shard = AlignUp(comm::ImageBytes(DType::kF32, matrix, vector));
    const comm::Range matrix_slice = unit.matrix.Slice(local);
    const comm::Range vector_slice = unit.vector.Slice(local);
    const int64_t kept_bytes =
        kept    ? AlignUp(comm::ImageBytes(unit.compute, matrix_slice, vector_slice))
        : codes ? plan.routes[u].code_bytes()
                : 0;
    const bool trained = unit.spec.trainable;
    const bool accumulates = trained && (slices || plan.accumulates_units());
    const int64_t accumulator_bytes =
        !accumulates ? 0
        : slices     ? comm::ImageBytes(DType::kF32, matrix_slice, vector_slice)
                     : unit.numel() * SizeOf(DType::kF32);

    const int64_t residual_bytes = trained ? plan.routes[u].residual_bytes() : 0;

    UnitMemory& held = units.emplace_back();
    const int64_t images = trained ? 2 + static_cast<int64_t>(states) : 1;
    held.storage = AlignedBuffer(images * shard + kept_bytes + residual_bytes + accumulator_bytes);
    std::byte* at = held.storage.data();
    const auto next = [&] {
      const comm::Image image = comm::MakeImage(at, DType::kF32, matrix, vector);
      at += shard;
      return image;
    };
    held.master = next();
    if (trained) held.gradient = next();
    for (size_t s = 0; s < states && trained; ++s) held.states[s] = next();
    if (kept) held.kept = SliceImage(unit, plan.topology, unit.compute, at);
    if (codes) held.codes = {at, static_cast<size_t>(kept_bytes)};
    at += kept_bytes;
    held.residual = {at, static_cast<size_t>(residual_bytes)};
    if (trained) held.residuals = plan.routes[u].ResidualsAt(at);
    at += residual_bytes;
    if (accumulates) {
      held.accumulator = slices ? SliceImage(unit, plan.topology, DType::kF32, at)
                                : FlatImage(unit, DType::kF32, at);
    }
    held.sizes = SizesFor(plan.routes[u]);
    if (plan.resident()) unit_buffers.emplace_back(unit.flat_bytes());
  }
  for (int i = 0; i < plan.unit_buffers; ++i) unit_buffers.emplace_back(plan.unit_bytes);
  if (plan.code_buffer_bytes > 0) {
    for (int i = 0; i < plan.code_buffers(); ++i) code_buffers.emplace_back(plan.code_buffer_bytes);
  }
  for (int i = 0; i < kGradientBuffers; ++i) gradient_buffers.emplace_back(plan.gradient_bytes);
  if (!slices) {
    for (int i = 0; i < kStagingBuffers; ++i) staging.emplace_back(4 * plan.slice_elements);
  }
}

}  // namespace thinwire::zero
