// A gather, a reduce or a push of one unit while it runs: what it waits for and what it still has
// to do. The lanes run its exchanges, one job per hop and chunk.
#pragma once

#include <cstdint>
#include <deque>

#include "thinwire/comm/lane.h"
#include "thinwire/kernels/rotate.h"
#include "thinwire/zero/hop_watch.h"
#include "thinwire/zero/memory.h"
#include "thinwire/zero/plan.h"
#include "thinwire/zero/program.h"
#include "thinwire/zero/timeline.h"

namespace thinwire::zero {

// What the caller's thread and the lanes of one engine share. Counters and flags are read and
// written with the monitor's lock held.
struct Board {
  const Plan& plan;
  Memory& memory;
  comm::Exchange exchange;
  std::array<comm::HopTraffic, kHops> traffic{};
  HopWatch watch{};
  std::array<TraceTrack, kTracks> tracks{};
  int events_done = 0;  // of the pass in progress
  std::vector<bool> gradient_buffer_busy = std::vector<bool>(kGradientBuffers);
  std::vector<const void*> staging_user = std::vector<const void*>(kStagingBuffers);
  int micro_batches = 1;  // training passes of the step so far, the one in progress included
  std::vector<const void*> codes_user = std::vector<const void*>(kStagingBuffers);
  std::vector<int> pushes_left{};       // chunks of the push in flight, by unit
  std::vector<bool> gradient_is_new{};  // by unit: reduced for the next step
  // By unit: of the owned differences that a push with `measured` has sent. The slow lane's.
  std::vector<double> difference_squares{};

  TraceTrack& track(TrackOf track) { return tracks[static_cast<size_t>(track)]; }
};

struct UnitOperation {
  enum class Kind : uint8_t {
    kGather,  // pull (without a kept slice), then the fast gather into a unit buffer
    kReduce,  // fast reduce into the slice, then the slow reduce into the shard's gradient
    kPush,    // slow gather of new weights into the kept slice; when units are resident, then the
              // fast gather into the unit's buffer
  };
  Kind kind = Kind::kGather;
  int unit = 0;
  int buffer = 0;           // kGather: unit buffer; kReduce: gradient buffer
  int after_event = -1;     // kGather
  int staging = 0;          // kReduce unless slices are accumulated: slice buffer; kPush of a
                            // resident unit: code buffer
  bool accumulate = false;  // kReduce: add to what earlier micro-batches left
  bool full = false;        // kPush: values, where the recipe sends differences
  bool measured = false;    // kPush: the squares of the differences are added up
  bool last = true;         // kReduce: the slow reduce follows
  bool input = false;       // kReduce, kPush: the values to send are there
  int64_t step = 0;         // for messages
  uint64_t epoch = 0;       // mixed into fingerprints: the same on all ranks, new for each use
  int slow_left = 0;        // chunks to finish
  int fast_left = 0;

  bool done() const { return slow_left == 0 && fast_left == 0; }
};

// One exchange of an operation.
class HopJob final : public comm::Job {
 public:
  HopJob(Board& board, UnitOperation& operation, Hop hop, int chunk, uint64_t fingerprint)
      : board_(board), operation_(operation), hop_(hop), chunk_(chunk), fingerprint_(fingerprint) {}

  // The fingerprint of the job behind this one in its lane; 0 when there is none.
  void set_next(uint64_t fingerprint) { next_ = fingerprint; }
  uint64_t fingerprint() const { return fingerprint_; }
  const UnitOperation& operation() const { return operation_; }
  Hop hop() const { return hop_; }

  void Prepare(comm::MessageSlot& slot, transport::Tag tag) override;
  bool Ready() override;
  void Awaited() override { Enter(Doing::kAwaitInput, TraceNow()); }
  void Launch(comm::MessageSlot& slot) override;
  void Complete(comm::MessageSlot& slot) override;
  void Finished() override;
  std::string Describe() const override;

 private:
  const comm::ExchangeShape& shape() const;
  comm::Operand Source() const;
  comm::Operand Target() const;
  comm::Image Flat() const;            // the unit buffer of a gather or a push
  comm::Image Slice() const;           // the fp32 slice between the reduce hops
  std::span<std::byte> Codes() const;  // this chunk's codes, when they are passed on
  comm::Image Weights() const;         // what the slow gather brings its values to
  bool CarriesDifferences() const;
  void TakeDifferences();
  kernels::Rotation Rotation() const;
  void RotateGradients();
  bool SliceIsHere(int slow_left) const;
  bool PushIsReady() const;
  bool ReduceIsReady() const;
  void Finish(comm::MessageSlot& slot);
  void FinishReduce();
  void Count();
  TraceTrack& Track(bool out) const;
  void Enter(Doing doing, int64_t at_ns) const;

  Board& board_;
  UnitOperation& operation_;
  Hop hop_;
  int chunk_;
  uint64_t fingerprint_;
  uint64_t next_ = 0;
  comm::Stamp stamp_;
  int64_t sent_bytes_ = 0;  // of the exchange; until it is launched, what it may be at most
  HopClock::time_point launched_{};
};

// A list of operations with their jobs in the order of the lanes; addresses stay.
struct OperationList {
  std::deque<UnitOperation> operations;
  std::deque<HopJob> slow_jobs;
  std::deque<HopJob> fast_jobs;

  // Adds an operation with all its jobs; `seed` tells it apart from the others in fingerprints.
  UnitOperation& Add(Board& board, const UnitOperation& operation, uint64_t seed);
  // Tells each job the fingerprint of the one behind it, which then rides in its messages.
  void Link();
};

// Sets an operation back to all chunks to do, for its next use. With the monitor's lock held.
void Rearm(const Plan& plan, UnitOperation& operation, int64_t step, uint64_t epoch);

// Whether the operation uses `hop` under the plan's recipe.
bool Uses(const Plan& plan, const UnitOperation& operation, Hop hop);

}  // namespace thinwire::zero
