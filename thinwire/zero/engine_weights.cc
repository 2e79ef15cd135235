// Weights outside of passes: whole parameters for every rank, and new values from their owners.
#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/zero/engine_impl.h"

namespace thinwire::zero {

void Engine::Impl::SendFullValues(std::string_view why) {
  CheckBetweenPasses(why);
  Guard([&] {
    comm::Record record;
    record.SetIntent(Mix64(static_cast<uint64_t>(step_) ^ HashBytes(why)), "%s in step %lld",
                     std::string(why).c_str(), static_cast<long long>(step_ + 1));
    agreement_.Exchange(record);
    PushAll();
  });
}

// Differences are taken against weights that a checkpoint does not hold: with full values now a run
// that goes on and one that resumes have the same bits.
void Engine::Impl::CatchUp() {
  if (plan_.recipe.sends_differences()) SendFullValues("weights caught up");
}

// Each rank sends its stretch to all others, a chunk of everybody's at a time. Tags below those of
// the lanes, which may still push.
std::vector<float> Engine::Impl::ReadParameter(int unit, int parameter) {
  return Guard([&] {
    THINWIRE_CHECK(!in_pass_, "ReadParameter inside a pass");
    CheckUnit(unit);
    const UnitLayout& layout = plan_.units[static_cast<size_t>(unit)];
    const size_t p = static_cast<size_t>(parameter);
    THINWIRE_CHECK(parameter >= 0 && p < layout.places.size(), "parameter ", parameter);
    const ParameterPlace& place = layout.places[p];
    comm::Record record;
    record.SetIntent(Mix64(static_cast<uint64_t>(unit) << 32 | p), "the values of %s",
                     layout.spec.parameters[p].name.c_str());
    agreement_.Exchange(record);

    std::vector<float> values(static_cast<size_t>(place.numel));
    const comm::Partition& region = place.matrix ? layout.matrix : layout.vector;
    const int64_t start = place.offset - (place.matrix ? 0 : layout.matrix.size());
    const comm::Topology& topology = plan_.topology;
    struct Part {
      int rank = 0;
      int64_t begin = 0, size = 0;  // in the parameter
    };
    std::vector<Part> parts;
    int64_t longest = 0;
    for (int host = 0; host < topology.hosts(); ++host) {
      for (int local = 0; local < topology.ranks_per_host(); ++local) {
        const comm::Range shard = region.Shard(local, host);
        const int64_t begin = std::max(start, shard.begin);
        const int64_t end = std::min(start + place.numel, shard.end);
        if (begin >= end) continue;
        parts.push_back({topology.RankOf(host, local), begin - start, end - begin});
        longest = std::max(longest, end - begin);
      }
    }
    const int me = topology.rank();
    for (const OwnedPart& part : OwnedParts(plan_)) {
      if (part.unit != unit || part.parameter != parameter) continue;
      const auto mine = part.Of(plan_, memory_.units[static_cast<size_t>(unit)].master);
      std::ranges::copy(mine, values.begin() + part.offset);
    }
    const int64_t chunk = plan_.options.chunk_bytes / static_cast<int64_t>(sizeof(float));
    std::vector<transport::Token> tokens;
    for (int64_t at = 0; at < longest; at += chunk) {
      const transport::Tag tag = parameter_reads_++ & 0xfffffffu;
      for (const Part& part : parts) {
        if (at >= part.size) continue;
        const auto bytes = std::as_writable_bytes(
            std::span(values).subspan(static_cast<size_t>(part.begin + at),
                                      static_cast<size_t>(std::min(chunk, part.size - at))));
        if (part.rank != me) {
          tokens.push_back(links_.bulk.Recv(context_, part.rank, tag, bytes));
          continue;
        }
        for (int peer = 0; peer < topology.world(); ++peer) {
          if (peer != me) tokens.push_back(links_.bulk.Send(context_, peer, tag, bytes));
        }
      }
      for (const transport::Token& token : tokens) token->Wait();
      tokens.clear();
    }
    return values;
  });
}

}  // namespace thinwire::zero
