#include "thinwire/comm/exchange.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "thinwire/base/crc32c.h"
#include "thinwire/base/error.h"
#include "thinwire/comm/coded_message.h"
#include "thinwire/kernels/convert.h"

namespace thinwire::comm {
namespace {

// Of the second part of a coded message. Lanes have tags with one of the upper bits (comm/lane.h).
// Two lanes of one engine have no pair of ranks in common, so their second parts need no two.
transport::Tag RestTag(transport::Tag tag) { return (tag & 0x1fffffffu) | 0x60000000u; }

}  // namespace

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
  const bool gather = shape.direction == Direction::kGather;
  for (int m = 0; m < shape.members(); ++m) {
    const size_t i = static_cast<size_t>(m);
    slot.receives_[i].bytes = take(shape.ReceivedBytes(m));
    slot.sends_[i].bytes = {};
    if (shape.members() > 1 && (gather ? m == shape.me : m != shape.me)) {
      slot.sends_[i].bytes = take(shape.message_bytes[i]);
    }
    for (MessageSlot::Message* message : {&slot.receives_[i], &slot.sends_[i]}) {
      message->first_bytes = std::ssize(message->bytes);
      if (!shape.coded() || message->bytes.empty()) continue;
      THINWIRE_CHECK(stamp.sizes != nullptr, "a coded exchange without sizes");
      const MessageSizes& sizes = *stamp.sizes;
      const auto& announced = message == &slot.sends_[i] ? sizes.sends[i] : sizes.receives[i];
      message->first_bytes = announced.At(stamp.tag, sizes.lag, message->first_bytes);
    }
  }
  if (shape.coded() && shape.members() > 1) {
    slot.plain_ = take(shape.MostPlainBytes());
    slot.own_plain_ = gather ? take(shape.PlainBytes(shape.me)) : slot.plain_;
  }
  for (int m = 0; m < shape.members(); ++m) {
    MessageSlot::Message& message = slot.receives_[static_cast<size_t>(m)];
    if (message.bytes.empty()) continue;
    message.token = transport_.Recv(context_, shape.ranks[static_cast<size_t>(m)], stamp.tag,
                                    message.bytes.first(static_cast<size_t>(message.first_bytes)));
  }
}

void Exchange::Encode(const ExchangeShape& shape, const Stamp& stamp, const Operand& source,
                      int member, MessageSlot& slot) const {
  MessageSlot::Message& message = slot.sends_[static_cast<size_t>(member)];
  if (message.bytes.empty()) return;
  if (shape.coded()) return EncodeCoded(shape, stamp, source, member, slot);
  Header header{.payload_bytes = message.bytes.size() - sizeof(Header),
                .fingerprint = stamp.fingerprint,
                .next = stamp.next};
  const std::span<std::byte> payload = message.bytes.subspan(sizeof(header));
  if (source.coded()) {
    std::ranges::copy(source.codes.first(header.payload_bytes), payload.begin());
  } else {
    EncodeValues(shape, source, member, payload);
  }
  WriteHeader(header, message.bytes);
}

void Exchange::EncodeValues(const ExchangeShape& shape, const Operand& source, int member,
                            std::span<std::byte> payload) const {
  const Piece& piece = shape.piece(member);
  if (source.residuals == nullptr) {
    return EncodePiece(context_, piece, shape.codecs, source.image, payload);
  }
  EncodeWithResidual(context_, piece, shape.codecs, source.image, *source.residuals->codec,
                     source.residuals->of_member[static_cast<size_t>(member)], payload);
}

void Exchange::EncodeCoded(const ExchangeShape& shape, const Stamp& stamp, const Operand& source,
                           int member, MessageSlot& slot) const {
  THINWIRE_CHECK(!source.coded(), "codes to pass on are not coded again");
  MessageSlot::Message& message = slot.sends_[static_cast<size_t>(member)];
  const Piece& piece = shape.piece(member);
  const auto plain = slot.own_plain_.first(static_cast<size_t>(shape.PlainBytes(member)));
  EncodeValues(shape, source, member, plain);
  const auto room = message.bytes.subspan(static_cast<size_t>(kCodedHeaderBytes));
  const int64_t bytes = kCodedHeaderBytes + CodePayload(context_, piece, shape.codecs, plain, room);
  Header header{.payload_bytes = static_cast<uint64_t>(bytes - kHeaderBytes),
                .fingerprint = stamp.fingerprint,
                .next = stamp.next};
  const int64_t next = SizeToAnnounce(bytes, std::ssize(message.bytes));
  stamp.sizes->sends[static_cast<size_t>(member)].Announce(stamp.tag, next);
  CodedHeader coded{.next_bytes = static_cast<uint64_t>(next)};
  coded.check = CheckOf(header, coded.next_bytes);
  std::memcpy(message.bytes.data() + sizeof(header), &coded, sizeof(coded));
  message.rest_bytes = std::max<int64_t>(0, bytes - message.first_bytes);
  if (bytes < message.first_bytes) {
    std::ranges::fill(message.bytes.subspan(static_cast<size_t>(bytes),
                                            static_cast<size_t>(message.first_bytes - bytes)),
                      std::byte{0});
  }
  WriteHeader(header, message.bytes.first(static_cast<size_t>(bytes)));
}

void Exchange::WriteHeader(Header header, std::span<std::byte> message) const {
  if (checksum_) {
    header.flags = Header::kChecksummed;
    header.crc32c = Crc32c(message.subspan(sizeof(header)));
  }
  std::memcpy(message.data(), &header, sizeof(header));
}

void Exchange::Send(const ExchangeShape& shape, const Stamp& stamp, const Operand& source,
                    MessageSlot& slot, HopTraffic& traffic) const {
  int64_t bytes = 0, messages = 0;
  const bool gather = shape.direction == Direction::kGather;
  if (gather) Encode(shape, stamp, source, shape.me, slot);
  for (int m = 0; m < shape.members(); ++m) {
    if (!shape.Sends(m)) continue;
    if (!gather) Encode(shape, stamp, source, m, slot);
    const size_t i = static_cast<size_t>(m);
    const MessageSlot::Message& encoded = slot.sends_[gather ? static_cast<size_t>(shape.me) : i];
    const auto send = [&](transport::Tag tag, int64_t at, int64_t size) {
      bytes += size;
      messages += 1;
      return transport_.Send(
          context_, shape.ranks[i], tag,
          encoded.bytes.subspan(static_cast<size_t>(at), static_cast<size_t>(size)));
    };
    slot.sends_[i].token = send(stamp.tag, 0, encoded.first_bytes);
    if (shape.coded() && encoded.rest_bytes > 0) {
      slot.sends_[i].rest_token = send(RestTag(stamp.tag), encoded.first_bytes, encoded.rest_bytes);
    }
  }
  slot.sent_bytes_ = bytes;
  traffic.bytes.fetch_add(bytes, std::memory_order_relaxed);
  traffic.messages.fetch_add(messages, std::memory_order_relaxed);
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

// The header of a message, with what is the same for all of them checked.
Header Exchange::ReadHeader(const ExchangeShape& shape, const Stamp& stamp, int member,
                            std::span<const std::byte> message) const {
  Header header;
  std::memcpy(&header, message.data(), sizeof(header));
  if (header.magic != Header::kMagic || header.version != Header{}.version) {
    throw PeerError(StrCat("a message of rank ", shape.ranks[static_cast<size_t>(member)],
                           " is not of this version of thinwire: run the same build on all hosts"));
  }
  const bool next_differs = stamp.next != 0 && header.next != 0 && header.next != stamp.next;
  const bool size_differs =
      !shape.coded() && header.payload_bytes != message.size() - sizeof(Header);
  if (header.fingerprint != stamp.fingerprint || next_differs || size_differs) {
    throw PeerError(StrCat("rank ", shape.ranks[static_cast<size_t>(member)], " sent another ",
                           next_differs ? "next exchange" : "exchange", " than the program says: ",
                           header.payload_bytes, " bytes of payload where ",
                           message.size() - sizeof(Header), " were due"));
  }
  return header;
}

// The first part of a coded message is there: posts a receive of what is left of it.
void Exchange::AwaitRest(const ExchangeShape& shape, const Stamp& stamp, int member,
                         const Header& header, MessageSlot& slot) const {
  MessageSlot::Message& message = slot.receives_[static_cast<size_t>(member)];
  CodedHeader coded;
  std::memcpy(&coded, message.bytes.data() + sizeof(header), sizeof(coded));
  const uint64_t most = message.bytes.size() - sizeof(header);
  if (coded.check != CheckOf(header, coded.next_bytes) || header.payload_bytes > most ||
      header.payload_bytes < sizeof(coded) || coded.next_bytes > message.bytes.size() ||
      coded.next_bytes < static_cast<uint64_t>(kCodedHeaderBytes)) {
    throw PeerError(StrCat("a coded message of rank ", shape.ranks[static_cast<size_t>(member)],
                           " arrived damaged: it says to have ", header.payload_bytes,
                           " bytes of at most ", most));
  }
  stamp.sizes->receives[static_cast<size_t>(member)].Announce(
      stamp.tag, static_cast<int64_t>(coded.next_bytes));
  const int64_t bytes = kHeaderBytes + static_cast<int64_t>(header.payload_bytes);
  message.rest_bytes = std::max<int64_t>(0, bytes - message.first_bytes);
  message.coded_bytes = bytes - kCodedHeaderBytes;
  if (message.rest_bytes == 0) return;
  message.rest_token =
      transport_.Recv(context_, shape.ranks[static_cast<size_t>(member)], RestTag(stamp.tag),
                      message.bytes.subspan(static_cast<size_t>(message.first_bytes),
                                            static_cast<size_t>(message.rest_bytes)));
}

void Exchange::Await(const ExchangeShape& shape, const Stamp& stamp, MessageSlot& slot) const {
  const auto wait = [](transport::Token& token) {
    if (!token) return false;
    token->Wait();
    token.reset();
    return true;
  };
  for (int m = 0; m < shape.members(); ++m) {
    MessageSlot::Message& message = slot.receives_[static_cast<size_t>(m)];
    if (!wait(message.token)) continue;
    const Header header = ReadHeader(shape, stamp, m, message.bytes);
    if (shape.coded()) {
      AwaitRest(shape, stamp, m, header, slot);
    } else {
      CheckPayload(header, shape.ranks[static_cast<size_t>(m)],
                   message.bytes.subspan(sizeof(header)));
    }
  }
  for (int m = 0; m < shape.members() && shape.coded(); ++m) {
    MessageSlot::Message& message = slot.receives_[static_cast<size_t>(m)];
    if (message.bytes.empty()) continue;
    wait(message.rest_token);
    const Header header = ReadHeader(shape, stamp, m, message.bytes);
    CheckPayload(header, shape.ranks[static_cast<size_t>(m)],
                 message.bytes.subspan(sizeof(header), header.payload_bytes));
  }
  for (MessageSlot::Message& message : slot.sends_) {
    wait(message.token);
    wait(message.rest_token);
  }
  slot.arrived_ = std::chrono::steady_clock::now();
}

// What EncodePiece made of the piece that came from `member`, or of this rank's own, as long as no
// other is asked for; empty where nothing was sent.
std::span<const std::byte> Exchange::PayloadOf(const ExchangeShape& shape, int member,
                                               MessageSlot& slot) const {
  const size_t i = static_cast<size_t>(member);
  const bool own = member == shape.me;
  const MessageSlot::Message& message = own ? slot.sends_[i] : slot.receives_[i];
  if (message.bytes.empty()) return {};
  if (!shape.coded()) return message.bytes.subspan(sizeof(Header));
  const int sent = shape.direction == Direction::kGather ? member : shape.me;  // whose piece it is
  const size_t bytes = static_cast<size_t>(shape.PlainBytes(sent));
  if (own) return slot.own_plain_.first(bytes);
  const auto plain = slot.plain_.first(bytes);
  ExpandPayload(context_, shape.piece(sent), shape.codecs,
                message.bytes.subspan(static_cast<size_t>(kCodedHeaderBytes),
                                      static_cast<size_t>(message.coded_bytes)),
                plain);
  return plain;
}

// What a member sent, to where it belongs.
void Exchange::Gathered(const ExchangeShape& shape, int member, std::span<const std::byte> payload,
                        const Operand& target) const {
  const auto& parcel = shape.parcels[static_cast<size_t>(member)];
  const auto& offsets = shape.offsets[static_cast<size_t>(member)];
  for (size_t p = 0; p < parcel.size(); ++p) {
    if (parcel[p].empty()) continue;
    const auto decode = target.adds ? DecodeDifference : DecodePiece;
    decode(context_, parcel[p], shape.codecs, payload.subspan(static_cast<size_t>(offsets[p])),
           target.image);
  }
}

void Exchange::CompleteGather(const ExchangeShape& shape, const Stamp& stamp, const Operand& source,
                              const Operand& target, MessageSlot& slot) const {
  Await(shape, stamp, slot);
  size_t code_at = 0;
  for (int m = 0; m < shape.members(); ++m) {
    const std::span<const std::byte> payload =
        m == shape.me && source.coded() ? source.codes : PayloadOf(shape, m, slot);
    if (target.coded()) {
      std::ranges::copy(payload, target.codes.begin() + static_cast<std::ptrdiff_t>(code_at));
      code_at += static_cast<size_t>(shape.offsets[static_cast<size_t>(m)].back());
    } else if (!payload.empty()) {
      Gathered(shape, m, payload, target);
    } else if (!shape.piece(m).empty()) {  // a hop with one participant: no codec
      THINWIRE_CHECK(!target.adds, "differences without anyone to send them to");
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
    PieceTerm& term = terms[static_cast<size_t>(m)];
    term = m == shape.me ? PieceTerm{{}, &source} : PieceTerm{PayloadOf(shape, m, slot), nullptr};
    if (!shape.coded() || shape.members() == 1) continue;
    // There is room to expand one message at a time; one after the other they add up to the same.
    SumPieces(context_, shape.mine(), shape.codecs, std::span(&term, 1), accumulate || m > 0,
              target);
  }
  if (shape.coded() && shape.members() > 1) return;
  HopCodecs codecs = shape.codecs;
  if (shape.members() == 1) codecs = {&codec::Raw(DType::kF32), &codec::Raw(DType::kF32)};
  SumPieces(context_, shape.mine(), codecs,
            std::span<const PieceTerm>(terms.data(), shape.ranks.size()), accumulate, target);
}

}  // namespace thinwire::comm
