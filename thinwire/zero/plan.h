// The plan: recipe, units, codecs, buffers and their sizes, fixed before the first step and
// printed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/comm/topology.h"
#include "thinwire/zero/layout.h"
#include "thinwire/zero/options.h"
#include "thinwire/zero/recipe.h"
#include "thinwire/zero/routes.h"
#include "thinwire/zero/unit.h"

namespace thinwire::zero {

// What one rank sent, per hop; bytes are those given to the transport, headers included.
struct Traffic {
  std::array<int64_t, kHops> bytes{};
  std::array<int64_t, kHops> messages{};
  std::array<int64_t, kHops> exchanges{};  // completed, of more than one member
  std::array<double, kHops> seconds{};     // their time: see HopSpan in zero/hop_watch.h
  int64_t control_bytes = 0;

  int64_t slow_bytes() const {
    return bytes[Index(Hop::kSlowGather)] + bytes[Index(Hop::kSlowReduce)];
  }
};

// One kind of memory on this rank.
struct MemoryItem {
  std::string kind;
  int64_t bytes = 0;
};

// Buffers that are in use at the same time. Two gradient buffers: one is filled while the other is
// sent. A slow exchange waits for the link, so three are in flight where two do for the fast hop.
constexpr int kGradientBuffers = 2;
constexpr int kStagingBuffers = 2;
constexpr int kFastWindow = 2;
constexpr int kSlowWindow = 3;

struct Plan {
  comm::Topology topology;
  EngineOptions options;
  Recipe recipe;  // of a unit that computes in options.compute; see Routes::recipe
  std::vector<UnitLayout> units{};
  std::vector<Routes> routes{};  // as units
  int64_t parameters = 0;
  int64_t trainable_parameters = 0;
  int unit_buffers = 0;                    // full flats that units take turns in; 0 when resident
  int64_t unit_bytes = 0;                  // of the largest flat
  int64_t gradient_bytes = 0;              // of the largest flat that is trained
  int64_t code_buffer_bytes = 0;           // of a slice in codes that are passed on and not kept
  int64_t slice_elements = 0;              // of the largest slice on this rank that is trained
  std::array<int64_t, 2> message_bytes{};  // of one exchange in flight: fast, slow hops
  std::vector<MemoryItem> memory{};
  // Slow-link payload per parameter and optimizer step that one host sends: the recipe's formula,
  // and what this model's units and the reuse of buffers make of it.
  double formula_bytes_per_param = 0;
  double predicted_bytes_per_param = 0;
  // Of the gathers that the formula counts, those that no pass needs: weights that are still in a
  // buffer, or that backward does not read.
  double spared_bytes_per_param = 0;
  // Where slow hops are entropy-coded, the prediction is the most that they send; this is it for
  // normally distributed elements (0 where none is coded).
  double coded_bytes_per_param = 0;

  // Whether some unit computes in fp16: then the loss is scaled.
  bool scales_loss() const;

  // Every rank has the weights of all units, each in a buffer of its own, from the step (or
  // refresh) that made them to the next.
  bool resident() const { return options.stage < 3; }
  // New weights are sent after the step, rather than fetched before use.
  bool pushes() const { return resident() || recipe.kept != Kept::kNothing; }
  // Beside the unit buffers: the slice of its host in compute dtype.
  bool keeps_slice() const {
    return !resident() && (recipe.kept == Kept::kValues || recipe.kept == Kept::kReference);
  }
  // Where the gradients of several micro-batches meet: on this rank's slice of its host, or on each
  // rank by themselves.
  bool accumulates_slices() const { return options.micro_batches != 1 && options.stage > 1; }
  bool accumulates_units() const { return options.micro_batches != 1 && options.stage == 1; }

  // Where codes that are passed on and not kept wait between the hops of a gather.
  int code_buffers() const { return resident() ? kStagingBuffers : unit_buffers; }

  int64_t memory_bytes() const;
};

// Throws UsageError for sizes, recipes or topologies that make no sense, naming the setting.
Plan MakePlan(const std::vector<UnitSpec>& units, const comm::Topology& topology,
              const EngineOptions& options);

// Slow-link bytes that this rank sends per optimizer step when a pass gathers these units.
int64_t SlowBytesPerStep(const Plan& plan, const std::vector<int>& gathered_units);

// The plan as the text that is printed before step 1, one idea per line.
std::string Describe(const Plan& plan);

}  // namespace thinwire::zero
