#include "thinwire/zero/routes.h"

#include <algorithm>

#include "thinwire/base/aligned_buffer.h"

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
  Piece ChunkOf(bool slow, int local, int host, int chunk, int chunks) const {
    Range vector = Vector(slow, local, host);
    if (chunk > 0) vector.begin = vector.end;  // vectors are small: all in the first chunk
    return {unit.matrix, unit.matrix.Part(Matrix(slow, local, host), chunks, chunk), unit.vector,
            vector};
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
      return recipe.slow_gather.get();
    case Hop::kFastGather:
      return recipe.forwards_codes() ? recipe.slow_gather.get() : recipe.fast_gather.get();
    case Hop::kFastReduce:
      return recipe.fast_reduce.get();
    case Hop::kSlowReduce:
      return recipe.slow_reduce.get();
  }
  return nullptr;
}

int ChunksFor(int64_t largest_message, int64_t chunk_bytes) {
  return static_cast<int>(
      std::clamp<int64_t>((largest_message + chunk_bytes - 1) / chunk_bytes, 1, 4096));
}

// The shards of the slices, as the slow gather coded them and in its chunks.
void AddForward(const Cut& cut, const comm::Topology& topology, const HopCodecs& codecs, int chunks,
                std::vector<comm::ExchangeShape>& shapes) {
  std::vector<int> ranks;
  for (int m = 0; m < cut.ranks_per_host; ++m) ranks.push_back(topology.RankOf(topology.host(), m));
  for (int c = 0; c < chunks; ++c) {
    std::vector<std::vector<Piece>> parcels(static_cast<size_t>(cut.ranks_per_host));
    for (int local = 0; local < cut.ranks_per_host; ++local) {
      for (int host = 0; host < cut.hosts; ++host) {
        parcels[static_cast<size_t>(local)].push_back(cut.ChunkOf(true, local, host, c, chunks));
      }
    }
    shapes.push_back(
        comm::ExchangeShape::Forward(ranks, topology.local(), codecs, std::move(parcels)));
  }
}

// The chunks in which one hop carries a unit.
std::vector<comm::ExchangeShape> ChunksOf(const Cut& cut, const comm::Topology& topology, Hop hop,
                                          const HopCodecs& codecs, int64_t chunk_bytes) {
  const bool slow = IsSlow(hop);
  const int members = slow ? topology.hosts() : topology.ranks_per_host();
  std::vector<int> ranks;
  for (int m = 0; m < members; ++m) {
    ranks.push_back(slow ? topology.RankOf(m, topology.local())
                         : topology.RankOf(topology.host(), m));
  }
  const int chunks = members > 1 ? ChunksFor(LargestMessage(cut, slow, codecs), chunk_bytes) : 1;
  const bool gather = hop == Hop::kSlowGather || hop == Hop::kFastGather;
  std::vector<comm::ExchangeShape> shapes;
  for (int c = 0; c < chunks; ++c) {
    std::vector<Piece> pieces;
    for (int m = 0; m < members; ++m) {
      pieces.push_back(cut.ChunkOf(slow, slow ? topology.local() : m, slow ? m : 0, c, chunks));
    }
    shapes.emplace_back(gather ? comm::Direction::kGather : comm::Direction::kReduce, ranks,
                        slow ? topology.host() : topology.local(), codecs, std::move(pieces));
  }
  return shapes;
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

int64_t Routes::code_offset(size_t chunk) const {
  int64_t offset = 0;
  for (size_t c = 0; c < chunk; ++c) offset += AlignUp(of(Hop::kFastGather)[c].payload_bytes());
  return offset;
}

std::vector<comm::Residuals> Routes::ResidualsAt(std::byte* data) const {
  std::vector<comm::Residuals> residuals;
  if (recipe.feedback == nullptr) return residuals;
  for (const comm::ExchangeShape& chunk : of(Hop::kSlowReduce)) {
    comm::Residuals& of_chunk = residuals.emplace_back();
    of_chunk.codec = recipe.feedback.get();
    for (int m = 0; m < chunk.members(); ++m) {
      const int64_t bytes =
          m == chunk.me ? 0 : recipe.feedback->EncodedBytes(chunk.piece(m).matrix_runs);
      of_chunk.of_member.emplace_back(data, static_cast<size_t>(bytes));
      data += bytes;
    }
  }
  return residuals;
}

int64_t Routes::residual_bytes() const {
  int64_t bytes = 0;
  for (const comm::Residuals& chunk : ResidualsAt(nullptr)) {
    for (const std::span<std::byte>& member : chunk.of_member) bytes += std::ssize(member);
  }
  return AlignUp(bytes);
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
  const codec::Codec* const raw = recipe.vectors.get();
  Routes routes{.recipe = recipe, .chunks = {}};
  for (const Hop hop : {Hop::kSlowGather, Hop::kFastGather, Hop::kFastReduce, Hop::kSlowReduce}) {
    const codec::Codec* const codec = CodecOf(recipe, hop);
    HopCodecs codecs{codec, IsRaw(*codec) ? codec : raw, codec->coder()};
    if (hop == Hop::kFastGather && recipe.forwards_codes()) {
      codecs.coder = nullptr;  // codes that are passed on are those that came out of the coder
      AddForward(cut, topology, codecs, static_cast<int>(routes.of(Hop::kSlowGather).size()),
                 routes.chunks[Index(hop)]);
    } else {
      routes.chunks[Index(hop)] = ChunksOf(cut, topology, hop, codecs, chunk_bytes);
    }
  }
  if (recipe.sends_differences()) {
    routes.full_values = ChunksOf(cut, topology, Hop::kSlowGather, {raw, raw}, chunk_bytes);
  }
  return routes;
}

}  // namespace thinwire::zero
