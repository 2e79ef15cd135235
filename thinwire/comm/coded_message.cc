#include "thinwire/comm/coded_message.h"

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/codec/message_coder.h"

namespace thinwire::comm {
namespace {

// The parts of a plain payload.
struct Parts {
  size_t matrix;
  size_t vector_at;
  size_t vector;

  Parts(const Piece& piece, const HopCodecs& codecs)
      : matrix(static_cast<size_t>(codecs.matrix->EncodedBytes(piece.matrix_runs))),
        vector_at(static_cast<size_t>(PaddedBytes(static_cast<int64_t>(matrix)))),
        vector(static_cast<size_t>(codecs.vector->EncodedBytes(piece.vector_runs))) {}
};

}  // namespace

uint64_t CheckOf(const Header& header, uint64_t next_bytes) {
  return Mix64(header.fingerprint ^ Mix64(header.payload_bytes ^ Mix64(next_bytes)));
}

int64_t MostCodedBytes(const Piece& piece, const HopCodecs& codecs) {
  if (piece.empty()) return 0;
  return kCodedHeaderBytes + PaddedBytes(codecs.coder->MostBytes(piece.matrix_runs)) +
         codecs.vector->EncodedBytes(piece.vector_runs);
}

int64_t CodePayload(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
                    std::span<const std::byte> plain, std::span<std::byte> coded) {
  const Parts parts(piece, codecs);
  const int64_t used =
      codecs.coder->Code(context, plain.first(parts.matrix), piece.matrix_runs, coded);
  const int64_t padded = PaddedBytes(used);
  const auto padding = coded.subspan(static_cast<size_t>(used), static_cast<size_t>(padded - used));
  std::ranges::fill(padding, std::byte{0});
  std::ranges::copy(plain.subspan(parts.vector_at, parts.vector), coded.begin() + padded);
  return padded + static_cast<int64_t>(parts.vector);
}

void ExpandPayload(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
                   std::span<const std::byte> coded, std::span<std::byte> plain) {
  const Parts parts(piece, codecs);
  const int64_t used =
      codecs.coder->Expand(context, coded, piece.matrix_runs, plain.first(parts.matrix));
  const size_t padded = static_cast<size_t>(PaddedBytes(used));
  if (coded.size() != padded + parts.vector) {
    throw PeerError(StrCat("a coded message of ", coded.size(),
                           " bytes is damaged: ", padded + parts.vector, " bytes of it are used"));
  }
  std::ranges::fill(plain.subspan(parts.matrix, parts.vector_at - parts.matrix), std::byte{0});
  std::ranges::copy(coded.subspan(padded), plain.begin() + static_cast<int64_t>(parts.vector_at));
}

}  // namespace thinwire::comm
