// What is exchanged in one exchange of a hop (comm/exchange.h), fixed when the plan is made.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/comm/piece.h"

namespace thinwire::comm {

enum class Direction : uint8_t { kGather, kReduce };

struct ExchangeShape {
  Direction direction = Direction::kGather;
  std::vector<int> ranks;  // the group, by member
  int me = 0;              // this rank's member index
  HopCodecs codecs;
  std::vector<std::vector<Piece>> parcels;    // the pieces of each member; one each but in forwards
  std::vector<int64_t> message_bytes;         // of each member's parcel; coded: at most
  std::vector<std::vector<int64_t>> offsets;  // of each member's pieces in its payload

  ExchangeShape(Direction direction, std::vector<int> ranks, int me, HopCodecs codecs,
                std::vector<Piece> pieces);
  // A gather of codes: `parcels` hold the pieces that were coded separately.
  static ExchangeShape Forward(std::vector<int> ranks, int me, HopCodecs codecs,
                               std::vector<std::vector<Piece>> parcels);

  bool coded() const { return codecs.coder != nullptr; }
  int members() const { return static_cast<int>(ranks.size()); }
  const Piece& piece(int member) const { return parcels[static_cast<size_t>(member)].front(); }
  const Piece& mine() const { return piece(me); }
  // Bytes of payload when a member's codes are kept: that of its own parcel, padded.
  int64_t payload_bytes() const { return offsets[static_cast<size_t>(me)].back(); }
  // Bytes of message memory that the exchange needs while it runs.
  int64_t room() const;
  // What this rank gives to the transport; coded: bytes at most, messages at least.
  int64_t sent_bytes() const;
  int64_t sent_messages() const;

  // Whether this rank has a message for `member`, and the bytes of that from it; coded: at most.
  bool Sends(int member) const;
  int64_t ReceivedBytes(int member) const;
  // Bytes of the payload with the piece of `member`, before and after the coder.
  int64_t PlainBytes(int member) const;
  // Of the largest such payload that this rank sends or receives.
  int64_t MostPlainBytes() const;

 private:
  ExchangeShape(Direction direction, std::vector<int> ranks, int me, HopCodecs codecs);
  void Measure();
};

}  // namespace thinwire::comm
