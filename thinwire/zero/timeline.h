// What the caller's thread and the lanes of all ranks did, state by state, over some steps: who
// waited for what. The engine keeps it between StartTimeline() and TakeTimeline().
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/base/trace_track.h"
#include "thinwire/zero/routes.h"

namespace thinwire::zero {

// The states of a track: `subject` is the unit, or -1.
enum class Doing : uint32_t {
  // The caller. Between a step and the next pass: data, evaluations, saves.
  kOutside,
  kPass,                 // in a pass, without a unit; part: 1 in training
  kCompute,              // with a unit gathered
  kFillGradients,        // of a unit, into its buffer
  kAwaitWeights,         // of a unit
  kAwaitGradientBuffer,  // for a unit
  kAwaitReduces,         // at the end of a pass or a step
  kAwaitRanks,           // what all ranks agree on: a pass, the norm of the gradients
  kNorm,                 // of the own gradients
  kOptimizer,
  // A lane: `kind` is the hop, `part` the chunk, `bytes` what this rank sends.
  kIdle,  // nothing is to be sent, or as much as may be is under way; nothing is to be taken in
  kAwaitInput,  // the next exchange is known, its values are not there
  kSend,        // encodes and posts
  kAwaitPeers,  // for messages, on the link or not sent yet
  kDecode,      // and sums
  // Moments of the caller, as they are entered; SpansOf() gives what it does after them.
  kReleased,  // a unit
  kReduced,   // the gradients of a unit are the engine's
  kStepped,   // step `part` is over
};
constexpr size_t kDoings = static_cast<size_t>(Doing::kReleased);
constexpr uint32_t Number(Doing doing) { return static_cast<uint32_t>(doing); }
std::string_view NameOf(Doing doing);

// A lane sends with one thread and takes in with another.
enum class TrackOf : uint8_t { kCaller, kFastOut, kFastIn, kSlowOut, kSlowIn };
constexpr size_t kTracks = 5;

struct RankTimeline {
  std::array<TraceTrack::Taken, kTracks> tracks{};

  const TraceTrack::Taken& of(TrackOf track) const { return tracks[static_cast<size_t>(track)]; }
};

struct Timeline {
  std::vector<std::string> units;  // their names
  std::vector<int> host_of_rank;
  std::vector<RankTimeline> ranks;  // all on the clock of rank 0
  double clock_error_s = 0;         // how far those of the others may be off at most

  int64_t lost() const;  // states that there was no room for
};

// A state with its end.
struct TimelineSpan {
  Doing doing = Doing::kOutside;
  Hop hop = Hop::kSlowGather;  // of a lane
  int unit = -1;
  int chunk = 0;
  int64_t bytes = 0;
  bool again =
      false;  // kCompute in training: the unit was computed with before, so this is backward
  int64_t begin_ns = 0, end_ns = 0;

  double seconds() const { return 1e-9 * static_cast<double>(end_ns - begin_ns); }
};
// End to end, without empty ones. What the caller does with several units gathered counts to the
// one that came last.
std::vector<TimelineSpan> SpansOf(const TraceTrack::Taken& taken);

// Steps of the caller, each from the end of the one before it, or the start; whole ones only.
struct TimelineStep {
  int64_t step = 0;
  int64_t begin_ns = 0, end_ns = 0;
};
std::vector<TimelineStep> StepsOf(const TraceTrack::Taken& caller);

// A table for people: where the time of each step went, as means over ranks, and what to change.
std::string Summarize(const Timeline& timeline);

// A Chrome trace: JSON for chrome://tracing and ui.perfetto.dev. One process per rank with a thread
// for the caller and for each lane, exchanges in flight above them, and arrows from what
// was waited for to who waited.
std::string ToChromeTrace(const Timeline& timeline);

}  // namespace thinwire::zero
