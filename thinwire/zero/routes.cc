#include "thinwire/zero/routes.h"

#include <algorithm>

namespace thinwire::zero {
namespace {

using comm::HopCodecs;
using comm::Partition;
using comm::Piece;
using comm::Range;

struct Cut {
  const UnitLayout& unit;
  int hosts;
  int ranks_per_host;

  // A slice for the fast hops, a shard for the slow ones.
  Range Matrix(bool slow, int local, int host) const {
    return slow ? unit.matrix.Shard(local, host) : unit.matrix.Slice(local);
  }
  Range Vector(bool slow, int local, int host) const {
    return slow ? unit.vector.Shard(local, host) : unit.vector.Slice(local);
  }
};

// The largest message of this hop on any rank, in one chunk.
int64_t LargestMessage(const Cut& cut, bool slow, const HopCodecs& codecs) {
  int64_t largest = 0;
  for (int local = 0; local < cut.ranks_per_host; ++local) {
    for (int host = 0; host < (slow ? cut.hosts : 1); ++host) {
      const Piece piece(cut.unit.matrix, cut.Matrix(slow, local, host), cut.unit.vector,
                        cut.Vector(slow, local, host));
      largest = std::max(largest, comm::MessageBytes(piece, codecs));
    }
  }
  return largest;
}

const codec::Codec* CodecOf(const Recipe& recipe, Hop hop) {
  switch (hop) {
    case Hop::kSlowGather:
      return recipe.slow_gather;
    case Hop::kFastGather:
      return recipe.fast_gather;
    case Hop::kFastReduce:
      return recipe.fast_reduce;
    case Hop::kSlowReduce:
      return recipe.slow_reduce;
  }
  return nullptr;
}

}  // namespace

std::string_view NameOf(Hop hop) {
  switch (hop) {
    case Hop::kSlowGather:
      return "slow gather";
    case Hop::kFastGather:
      return "fast gather";
    case Hop::kFastReduce:
      return "fast reduce";
    case Hop::kSlowReduce:
      return "slow reduce";
  }
  return "";
}

int64_t Routes::sent_bytes(Hop hop) const {
  int64_t bytes = 0;
  for (const comm::ExchangeShape& chunk : of(hop)) bytes += chunk.sent_bytes();
  return bytes;
}

int64_t Routes::sent_messages(Hop hop) const {
  int64_t messages = 0;
  for (const comm::ExchangeShape& chunk : of(hop)) messages += chunk.sent_messages();
  return messages;
}

Routes MakeRoutes(const UnitLayout& unit, const comm::Topology& topology, const Recipe& recipe,
                  int64_t chunk_bytes) {
  const Cut cut{unit, topology.hosts(), topology.ranks_per_host()};
  Routes routes;
  for (const Hop hop : {Hop::kSlowGather, Hop::kFastGather, Hop::kFastReduce, Hop::kSlowReduce}) {
    const bool slow = IsSlow(hop);
    const int members = slow ? topology.hosts() : topology.ranks_per_host();
    const HopCodecs codecs{CodecOf(recipe, hop), recipe.vectors};
    std::vector<int> ranks;
    for (int m = 0; m < members; ++m) {
      ranks.push_back(slow ? topology.RankOf(m, topology.local())
                           : topology.RankOf(topology.host(), m));
    }
    int chunks = 1;
    if (members > 1) {
      const int64_t largest = LargestMessage(cut, slow, codecs);
      chunks =
          static_cast<int>(std::clamp<int64_t>((largest + chunk_bytes - 1) / chunk_bytes, 1, 4096));
    }
    for (int c = 0; c < chunks; ++c) {
      std::vector<Piece> pieces;
      for (int m = 0; m < members; ++m) {
        const int local = slow ? topology.local() : m;
        const int host = slow ? m : 0;
        const Range matrix =
            unit.matrix.Split(cut.Matrix(slow, local, host), chunks)[static_cast<size_t>(c)];
        Range vector = cut.Vector(slow, local, host);
        if (c > 0) vector.begin = vector.end;  // vectors are small: all in the first chunk
        pieces.emplace_back(unit.matrix, matrix, unit.vector, vector);
      }
      const bool gather = hop == Hop::kSlowGather || hop == Hop::kFastGather;
      routes.chunks[Index(hop)].emplace_back(
          gather ? comm::Direction::kGather : comm::Direction::kReduce, ranks,
          slow ? topology.host() : topology.local(), codecs, std::move(pieces));
    }
  }
  return routes;
}

}  // namespace thinwire::zero
