// Messages whose matrix range is entropy-coded (codec/message_coder.h): of varying size.
//
//   offset 0   Header; payload_bytes is that of all that follows
//          40  CodedHeader
//          56  what the coder made of the matrix range
//           .  padding to 8 bytes
//           .  the vector range as it is
//
// The first message carries as much of it as message_sizes.h has agreed, with zeros behind it where
// it is shorter, a second one the rest. The receiver turns it into the payload of comm/piece.h.
#pragma once

#include "thinwire/comm/piece.h"

namespace thinwire::comm {

struct CodedHeader {
  uint64_t next_bytes = 0;  // announced: of a later message of this exchange
  uint64_t check = 0;       // CheckOf(): both sizes are used before the whole message is there
};
static_assert(sizeof(CodedHeader) == 16);
constexpr int64_t kCodedHeaderBytes = kHeaderBytes + static_cast<int64_t>(sizeof(CodedHeader));

uint64_t CheckOf(const Header& header, uint64_t next_bytes);

// The most bytes that the coded message of a piece takes; 0 when it is empty.
int64_t MostCodedBytes(const Piece& piece, const HopCodecs& codecs);

// Codes `plain`, the payload that EncodePiece fills, into what follows both headers. Returns the
// bytes used.
int64_t CodePayload(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
                    std::span<const std::byte> plain, std::span<std::byte> coded);

// The inverse. Throws PeerError when `coded` is no code of such a payload.
void ExpandPayload(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
                   std::span<const std::byte> coded, std::span<std::byte> plain);

}  // namespace thinwire::comm
