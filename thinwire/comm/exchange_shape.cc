#include "thinwire/comm/exchange_shape.h"

#include <algorithm>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/base/error.h"
#include "thinwire/comm/coded_message.h"

namespace thinwire::comm {

ExchangeShape::ExchangeShape(Direction d, std::vector<int> group, int my_index,
                             HopCodecs hop_codecs)
    : direction(d), ranks(std::move(group)), me(my_index), codecs(hop_codecs) {
  THINWIRE_CHECK(me >= 0 && me < members() && ranks.size() <= kMaxTerms, ranks.size(), " members");
}

ExchangeShape::ExchangeShape(Direction d, std::vector<int> group, int my_index,
                             HopCodecs hop_codecs, std::vector<Piece> member_pieces)
    : ExchangeShape(d, std::move(group), my_index, hop_codecs) {
  for (Piece& piece : member_pieces) parcels.push_back({std::move(piece)});
  Measure();
}

ExchangeShape ExchangeShape::Forward(std::vector<int> group, int my_index, HopCodecs hop_codecs,
                                     std::vector<std::vector<Piece>> member_parcels) {
  ExchangeShape shape(Direction::kGather, std::move(group), my_index, hop_codecs);
  shape.parcels = std::move(member_parcels);
  shape.Measure();
  return shape;
}

void ExchangeShape::Measure() {
  THINWIRE_CHECK(ranks.size() == parcels.size());
  for (const std::vector<Piece>& parcel : parcels) {
    THINWIRE_CHECK(!coded() || parcel.size() == 1, parcel.size(), " pieces, coded");
    const int64_t bytes =
        coded() ? MostCodedBytes(parcel.front(), codecs) : MessageBytes(parcel, codecs);
    message_bytes.push_back(members() > 1 ? bytes : 0);
    offsets.push_back(PayloadOffsets(parcel, codecs));
  }
}

int64_t ExchangeShape::room() const {
  if (members() == 1) return 0;
  int64_t bytes =
      direction == Direction::kGather ? AlignUp(message_bytes[static_cast<size_t>(me)]) : 0;
  for (int m = 0; m < members(); ++m) {
    bytes += AlignUp(ReceivedBytes(m));
    if (direction == Direction::kReduce && Sends(m)) {
      bytes += AlignUp(message_bytes[static_cast<size_t>(m)]);
    }
  }
  if (coded()) bytes += AlignUp(MostPlainBytes());
  if (coded() && direction == Direction::kGather) bytes += AlignUp(PlainBytes(me));
  return bytes;
}

int64_t ExchangeShape::sent_bytes() const {
  int64_t bytes = 0;
  for (int m = 0; m < members(); ++m) {
    if (!Sends(m)) continue;
    bytes += message_bytes[static_cast<size_t>(direction == Direction::kGather ? me : m)];
  }
  return bytes;
}

int64_t ExchangeShape::sent_messages() const {
  int64_t messages = 0;
  for (int m = 0; m < members(); ++m) messages += Sends(m);
  return messages;
}

// A gather sends one encoded piece to all; a reduce encodes a piece for each.
bool ExchangeShape::Sends(int member) const {
  if (member == me) return false;
  const int piece = direction == Direction::kGather ? me : member;
  return message_bytes[static_cast<size_t>(piece)] > 0;
}

int64_t ExchangeShape::ReceivedBytes(int member) const {
  if (member == me) return 0;
  const int piece = direction == Direction::kGather ? member : me;
  return message_bytes[static_cast<size_t>(piece)];
}

int64_t ExchangeShape::PlainBytes(int member) const {
  if (members() == 1 || piece(member).empty()) return 0;
  return MessageBytes(piece(member), codecs) - kHeaderBytes;
}

int64_t ExchangeShape::MostPlainBytes() const {
  int64_t most = 0;
  for (int m = 0; m < members(); ++m) most = std::max(most, PlainBytes(m));
  return most;
}

}  // namespace thinwire::comm
