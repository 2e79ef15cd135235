#include "thinwire/comm/exchange.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "thinwire/base/crc32c.h"
#include "thinwire/base/error.h"
#include "thinwire/kernels/convert.h"

namespace thinwire::comm {
namespace {

// A gather sends one encoded piece to all; a reduce encodes a piece for each.
bool Sends(const ExchangeShape& shape, int member) {
  if (member == shape.me) return false;
  const int piece = shape.direction == Direction::kGather ? shape.me : member;
  return shape.message_bytes[static_cast<size_t>(piece)] > 0;
}

int64_t ReceivedBytes(const ExchangeShape& shape, int member) {
  if (member == shape.me) return 0;
  const int piece = shape.direction == Direction::kGather ? member : shape.me;
  return shape.message_bytes[static_cast<size_t>(piece)];
}

}  // namespace

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
    message_bytes.push_back(members() > 1 ? MessageBytes(parcel, codecs) : 0);
    offsets.push_back(PayloadOffsets(parcel, codecs));
  }
}

int64_t ExchangeShape::room() const {
  if (members() == 1) return 0;
  int64_t bytes =
      direction == Direction::kGather ? AlignUp(message_bytes[static_cast<size_t>(me)]) : 0;
  for (int m = 0; m < members(); ++m) {
    bytes += AlignUp(ReceivedBytes(*this, m));
    if (direction == Direction::kReduce && Sends(*this, m)) {
      bytes += AlignUp(message_bytes[static_cast<size_t>(m)]);
    }
  }
  return bytes;
}

int64_t ExchangeShape::sent_bytes() const {
  int64_t bytes = 0;
  for (int m = 0; m < members(); ++m) {
    if (!Sends(*this, m)) continue;
    bytes += message_bytes[static_cast<size_t>(direction == Direction::kGather ? me : m)];
  }
  return bytes;
}

int64_t ExchangeShape::sent_messages() const {
  int64_t messages = 0;
  for (int m = 0; m < members(); ++m) messages += Sends(*this, m);
  return messages;
}

MessageSlot::MessageSlot(int64_t room, int members)
    : room_(room), sends_(static_cast<size_t>(members)), receives_(static_cast<size_t>(members)) {}

void Exchange::PostReceives(const ExchangeShape& shape, const Stamp& stamp,
                            MessageSlot& slot) const {
  int64_t at = 0;
  const auto take = [&](int64_t bytes) {
    const auto part =
        slot.room_.bytes().subspan(static_cast<size_t>(at), static_cast<size_t>(bytes));
    at += AlignUp(bytes);
    return part;
  };
  for (int m = 0; m < shape.members(); ++m) {
    const size_t i = static_cast<size_t>(m);
    slot.receives_[i].bytes = take(ReceivedBytes(shape, m));
    slot.sends_[i].bytes = {};
    const bool gather = shape.direction == Direction::kGather;
    if (shape.members() > 1 && (gather ? m == shape.me : m != shape.me)) {
      slot.sends_[i].bytes = take(shape.message_bytes[i]);
    }
  }
  for (int m = 0; m < shape.members(); ++m) {
    const size_t i = static_cast<size_t>(m);
    if (slot.receives_[i].bytes.empty()) continue;
    slot.receives_[i].token =
        transport_.Recv(context_, shape.ranks[i], stamp.tag, slot.receives_[i].bytes);
  }
}

void Exchange::Send(const ExchangeShape& shape, const Stamp& stamp, const Operand& source,
                    MessageSlot& slot, HopTraffic& traffic) const {
  const auto encode = [&](int member) {
    const size_t i = static_cast<size_t>(member);
    const std::span<std::byte> message = slot.sends_[i].bytes;
    if (message.empty()) return;
    Header header{.payload_bytes = message.size() - sizeof(Header),
                  .fingerprint = stamp.fingerprint,
                  .next = stamp.next};
    const std::span<std::byte> payload = message.subspan(sizeof(header));
    if (source.coded()) {
      std::ranges::copy(source.codes.first(header.payload_bytes), payload.begin());
    } else {
      EncodePiece(context_, shape.piece(member), shape.codecs, source.image, payload);
    }
    if (checksum_) {
      header.flags = Header::kChecksummed;
      header.crc32c = Crc32c(payload);
    }
    std::memcpy(message.data(), &header, sizeof(header));
  };
  const bool gather = shape.direction == Direction::kGather;
  if (gather) encode(shape.me);
  for (int m = 0; m < shape.members(); ++m) {
    if (!Sends(shape, m)) continue;
    if (!gather) encode(m);
    const size_t i = static_cast<size_t>(m);
    const auto bytes = slot.sends_[gather ? static_cast<size_t>(shape.me) : i].bytes;
    slot.sends_[i].token = transport_.Send(context_, shape.ranks[i], stamp.tag, bytes);
  }
  traffic.bytes.fetch_add(shape.sent_bytes(), std::memory_order_relaxed);
  traffic.messages.fetch_add(shape.sent_messages(), std::memory_order_relaxed);
}

void Exchange::CheckPayload(const Header& header, int rank,
                            std::span<const std::byte> payload) const {
  if (header.flags > Header::kChecksummed) {
    throw PeerError(StrCat("a message of rank ", rank, " has flags ", header.flags,
                           ", which this version of thinwire does not know: run the same build on "
                           "all hosts, or look for what damaged the message"));
  }
  const bool checksummed = (header.flags & Header::kChecksummed) != 0;
  if (checksum_ && !checksummed) {
    throw PeerError(StrCat("a message of rank ", rank,
                           " came without its checksum: set parallel.checksum alike on all ranks, "
                           "or look for what damaged the message"));
  }
  if (checksummed && header.crc32c != Crc32c(payload)) {
    throw PeerError(StrCat("a message of rank ", rank,
                           " arrived damaged: its checksum does not fit its ", payload.size(),
                           " bytes"));
  }
}

void Exchange::CheckHeader(const ExchangeShape& shape, const Stamp& stamp, int member,
                           std::span<const std::byte> message) const {
  Header header;
  std::memcpy(&header, message.data(), sizeof(header));
  if (header.magic != Header::kMagic || header.version != Header{}.version) {
    throw PeerError(StrCat("a message of rank ", shape.ranks[static_cast<size_t>(member)],
                           " is not of this version of thinwire: run the same build on all hosts"));
  }
  const bool next_differs = stamp.next != 0 && header.next != 0 && header.next != stamp.next;
  if (header.fingerprint != stamp.fingerprint || next_differs ||
      header.payload_bytes != message.size() - sizeof(Header)) {
    throw PeerError(StrCat("rank ", shape.ranks[static_cast<size_t>(member)], " sent another ",
                           next_differs ? "next exchange" : "exchange", " than the program says: ",
                           header.payload_bytes, " bytes of payload where ",
                           message.size() - sizeof(Header), " were due"));
  }
  CheckPayload(header, shape.ranks[static_cast<size_t>(member)], message.subspan(sizeof(Header)));
}

void Exchange::Await(const ExchangeShape& shape, const Stamp& stamp, MessageSlot& slot) const {
  for (int m = 0; m < shape.members(); ++m) {
    MessageSlot::Message& message = slot.receives_[static_cast<size_t>(m)];
    if (!message.token) continue;
    message.token->Wait();
    message.token.reset();
    CheckHeader(shape, stamp, m, message.bytes);
  }
  for (MessageSlot::Message& message : slot.sends_) {
    if (!message.token) continue;
    message.token->Wait();
    message.token.reset();
  }
  slot.arrived_ = std::chrono::steady_clock::now();
}

// What a member sent, to where it belongs.
void Exchange::Gathered(const ExchangeShape& shape, int member, std::span<const std::byte> payload,
                        const Operand& target) const {
  const auto& parcel = shape.parcels[static_cast<size_t>(member)];
  const auto& offsets = shape.offsets[static_cast<size_t>(member)];
  for (size_t p = 0; p < parcel.size(); ++p) {
    if (parcel[p].empty()) continue;
    DecodePiece(context_, parcel[p], shape.codecs, payload.subspan(static_cast<size_t>(offsets[p])),
                target.image);
  }
}

void Exchange::CompleteGather(const ExchangeShape& shape, const Stamp& stamp, const Operand& source,
                              const Operand& target, MessageSlot& slot) const {
  Await(shape, stamp, slot);
  size_t code_at = 0;
  for (int m = 0; m < shape.members(); ++m) {
    const size_t i = static_cast<size_t>(m);
    std::span<const std::byte> payload =
        m == shape.me ? slot.sends_[i].bytes : slot.receives_[i].bytes;
    if (!payload.empty()) payload = payload.subspan(sizeof(Header));
    if (m == shape.me && source.coded()) payload = source.codes;
    if (target.coded()) {
      std::ranges::copy(payload, target.codes.begin() + static_cast<std::ptrdiff_t>(code_at));
      code_at += static_cast<size_t>(shape.offsets[i].back());
    } else if (!payload.empty()) {
      Gathered(shape, m, payload, target);
    } else if (!shape.piece(m).empty()) {  // a hop with one participant: no codec
      const auto copy = [&](Array from, Array to) {
        if (from.data != to.data) kernels::Convert(context_, from, to);
      };
      copy(source.image.Matrix(shape.mine().matrix), target.image.Matrix(shape.mine().matrix));
      copy(source.image.Vector(shape.mine().vector), target.image.Vector(shape.mine().vector));
    }
  }
}

void Exchange::CompleteReduce(const ExchangeShape& shape, const Stamp& stamp, const Image& source,
                              bool accumulate, const Image& target, MessageSlot& slot) const {
  Await(shape, stamp, slot);
  if (shape.mine().empty()) return;
  std::array<PieceTerm, kMaxTerms> terms;
  for (int m = 0; m < shape.members(); ++m) {
    const size_t i = static_cast<size_t>(m);
    terms[i] = m == shape.me ? PieceTerm{{}, &source}
                             : PieceTerm{slot.receives_[i].bytes.subspan(sizeof(Header)), nullptr};
  }
  HopCodecs codecs = shape.codecs;
  if (shape.members() == 1) codecs = {&codec::Raw(DType::kF32), &codec::Raw(DType::kF32)};
  SumPieces(context_, shape.mine(), codecs,
            std::span<const PieceTerm>(terms.data(), shape.ranks.size()), accumulate, target);
}

}  // namespace thinwire::comm
