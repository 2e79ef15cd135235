// The timeline of all ranks, collected by rank 0.
#include <cmath>
#include <limits>

#include "thinwire/base/error.h"
#include "thinwire/zero/engine_impl.h"

namespace thinwire::zero {
namespace {

// Of a track: 4 MiB. A step of 100 units in 8 chunks each enters about 10,000 in a lane.
constexpr size_t kMostStates = size_t{1} << 17;

// The shortest of so many messages tells clocks apart best.
constexpr int kClockRounds = 8;

}  // namespace

void Engine::Impl::StartTimeline() {
  CheckBetweenPasses("the start of a timeline");
  for (size_t t = 0; t < kTracks; ++t) {
    const bool caller = t == static_cast<size_t>(TrackOf::kCaller);
    board_.tracks[t].Start(kMostStates, {.doing = Number(caller ? Doing::kOutside : Doing::kIdle)});
  }
}

// How far the clock of each rank is ahead of rank 0's. A message is no earlier received than sent:
// of the differences of clocks that both directions show, each is too large by a delay, and their
// mean errs by at most half of the sum of the two delays. Clocks of one machine are one: what
// cannot be told from zero is zero.
std::vector<double> Engine::Impl::ClocksAhead(double& error_s) {
  const size_t world = static_cast<size_t>(plan_.topology.world());
  const size_t me = static_cast<size_t>(plan_.topology.rank());
  std::vector<double> received(world,
                               std::numeric_limits<double>::infinity());  // minus sent, least
  for (int round = 0; round < kClockRounds; ++round) {
    comm::Record record;
    record.SetIntent(0, "the clocks of a timeline");
    record.flags = static_cast<uint64_t>(TraceNow()) & comm::Record::kFreeFlags;
    const auto records = agreement_.Exchange(record);
    const int64_t now = TraceNow();
    for (size_t r = 0; r < world; ++r) {
      const auto sent = static_cast<int64_t>(records[r].flags & comm::Record::kFreeFlags);
      received[r] = std::min(received[r], static_cast<double>(now - sent));
    }
  }
  // What each rank saw of rank 0's, and rank 0 of each.
  std::vector<double> seen(2 * world, 0.0);
  seen[me] = received[0];
  if (me == 0) std::ranges::copy(received, seen.begin() + static_cast<std::ptrdiff_t>(world));
  agreement_.Sum(seen);
  std::vector<double> ahead(world);
  error_s = 0;
  for (size_t r = 1; r < world; ++r) {
    const double difference = (seen[r] - seen[world + r]) / 2;
    const double error = (seen[r] + seen[world + r]) / 2;
    if (std::abs(difference) <= error) continue;
    ahead[r] = difference;
    error_s = std::max(error_s, 1e-9 * error);
  }
  return ahead;
}

Timeline Engine::Impl::TakeTimeline() {
  CheckBetweenPasses("the end of a timeline");
  return Guard([&] {
    const comm::Topology& topology = plan_.topology;
    const size_t world = static_cast<size_t>(topology.world());
    Timeline timeline;
    std::vector<RankTimeline> ranks(world);
    RankTimeline& mine = ranks[static_cast<size_t>(topology.rank())];
    for (size_t t = 0; t < kTracks; ++t) mine.tracks[t] = board_.tracks[t].Take();
    const std::vector<double> ahead = ClocksAhead(timeline.clock_error_s);
    ShareTimelines(ranks);
    if (topology.rank() != 0) return timeline;
    for (size_t r = 0; r < world; ++r) {
      for (TraceTrack::Taken& taken : ranks[r].tracks) {
        for (TraceState& state : taken.states) state.at_ns -= std::llround(ahead[r]);
        taken.end_ns -= std::llround(ahead[r]);
      }
    }
    timeline.ranks = std::move(ranks);
    timeline.host_of_rank.resize(world);
    for (int host = 0; host < topology.hosts(); ++host) {
      for (int local = 0; local < topology.ranks_per_host(); ++local) {
        timeline.host_of_rank[static_cast<size_t>(topology.RankOf(host, local))] = host;
      }
    }
    for (const UnitLayout& unit : plan_.units) timeline.units.push_back(unit.spec.name);
    return timeline;
  });
}

// To rank 0, one message per track. Tags as those of ReadParameter.
void Engine::Impl::ShareTimelines(std::vector<RankTimeline>& ranks) {
  const size_t me = static_cast<size_t>(plan_.topology.rank());
  std::vector<double> sizes(3 * kTracks * ranks.size(), 0.0);
  const auto at = [&](size_t rank, size_t track) { return &sizes[3 * (rank * kTracks + track)]; };
  for (size_t t = 0; t < kTracks; ++t) {
    const TraceTrack::Taken& taken = ranks[me].tracks[t];
    at(me, t)[0] = static_cast<double>(taken.states.size());
    at(me, t)[1] = static_cast<double>(taken.end_ns);
    at(me, t)[2] = static_cast<double>(taken.lost);
  }
  agreement_.Sum(sizes);
  for (size_t r = 1; r < ranks.size(); ++r) {
    for (size_t t = 0; t < kTracks; ++t) {
      const transport::Tag tag = parameter_reads_++ & 0xfffffffu;
      TraceTrack::Taken& taken = ranks[r].tracks[t];
      if (at(r, t)[0] == 0) continue;
      if (me == r) {
        links_.bulk.Send(context_, 0, tag, std::as_bytes(std::span(taken.states)))->Wait();
      } else if (me == 0) {
        taken.states.resize(static_cast<size_t>(at(r, t)[0]));
        taken.end_ns = static_cast<int64_t>(at(r, t)[1]);
        taken.lost = static_cast<int64_t>(at(r, t)[2]);
        links_.bulk
            .Recv(context_, static_cast<int>(r), tag,
                  std::as_writable_bytes(std::span(taken.states)))
            ->Wait();
      }
    }
  }
}

}  // namespace thinwire::zero
