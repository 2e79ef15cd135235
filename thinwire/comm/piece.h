// What one message carries: one or more pieces of a unit, a range of each region each, behind a
// header.
//
//   offset 0   Header (40 bytes)
//          40  the matrix range of a piece, in the codec of the hop
//           .  padding to 8 bytes
//           .  the vector range, in the raw codec of the hop
//           .  padding to 8 bytes and the next piece, in messages of several
//
// Little-endian, as all supported machines are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/dtype.h"
#include "thinwire/codec/codec.h"
#include "thinwire/comm/partition.h"

namespace thinwire::comm {

struct Header {
  static constexpr uint32_t kMagic = 0x31775774;  // "tWw1"
  uint32_t magic = kMagic;
  uint32_t version = 2;
  uint64_t payload_bytes = 0;
  uint64_t fingerprint = 0;  // of this exchange
  uint64_t next = 0;         // of the sender's next exchange on this hop, 0 when not yet known
  static constexpr uint32_t kChecksummed = 1;
  uint32_t flags = 0;
  uint32_t crc32c = 0;  // of the payload with kChecksummed, else 0
};
static_assert(sizeof(Header) == 40);
constexpr int64_t kHeaderBytes = sizeof(Header);

// The codecs of a hop: the chosen one for matrices, a raw one for vectors. Null on a hop with one
// participant, where nothing is sent.
struct HopCodecs {
  const codec::Codec* matrix = nullptr;
  const codec::Codec* vector = nullptr;
  // Where set, matrices are entropy-coded on the way: comm/coded_message.h. What is said here is
  // about messages before and after that.
  const codec::MessageCoder* coder = nullptr;
};

struct Piece {
  Range matrix;
  Range vector;
  std::vector<int64_t> matrix_runs;
  std::vector<int64_t> vector_runs;

  Piece() = default;
  Piece(const Partition& matrix_region, Range matrix_range, const Partition& vector_region,
        Range vector_range)
      : matrix(matrix_range),
        vector(vector_range),
        matrix_runs(matrix_region.Runs(matrix_range)),
        vector_runs(vector_region.Runs(vector_range)) {}

  bool empty() const { return matrix.size() == 0 && vector.size() == 0; }
};

// The values of (a part of) a unit in memory: of each region one array, which starts at element
// `*_begin` of the region.
struct Image {
  Array matrix;
  int64_t matrix_begin = 0;
  Array vector;
  int64_t vector_begin = 0;

  Array Matrix(Range range) const { return matrix.Sub(range.begin - matrix_begin, range.size()); }
  Array Vector(Range range) const { return vector.Sub(range.begin - vector_begin, range.size()); }
};

// An image of `matrix` and `vector` elements from `*_begin` on, laid one after the other at `data`.
Image MakeImage(std::byte* data, DType dtype, Range matrix, Range vector);
inline int64_t ImageBytes(DType dtype, Range matrix, Range vector) {
  return (matrix.size() + vector.size()) * SizeOf(dtype);
}

// What a lossy reduce still owes each member of its group (error feedback): the matrix ranges of
// their pieces, in a codec of its own. Spans of members to whom nothing is sent are empty.
struct Residuals {
  const codec::Codec* codec = nullptr;
  std::vector<std::span<std::byte>> of_member;
};

// Where the values of an exchange are: an image, or the payload of a message as it was sent or
// received, which is passed on without decoding it.
struct Operand {
  Image image;
  std::span<std::byte> codes;  // used when not empty
  // As the target of a gather: matrices are differences, and are added to what the image has.
  bool adds = false;
  // As the source of a reduce: is added to what is sent, and gets what the codec of the hop loses.
  // The fp32 image then holds the sums, up to their rounding, where pieces of others were.
  const Residuals* residuals = nullptr;

  Operand() = default;
  Operand(const Image& values) : image(values) {}  // NOLINT: an image is an operand
  Operand(const Image& values, std::span<std::byte> payload) : image(values), codes(payload) {}

  bool coded() const { return !codes.empty(); }
};

constexpr int64_t PaddedBytes(int64_t bytes) { return (bytes + 7) / 8 * 8; }

// Bytes of the message that carries `piece`; 0 when it is empty, since then none is sent.
int64_t MessageBytes(const Piece& piece, const HopCodecs& codecs);
// Of one that carries several.
int64_t MessageBytes(std::span<const Piece> pieces, const HopCodecs& codecs);
// Where each of several pieces begins in the payload; then the size of the payload, padded.
std::vector<int64_t> PayloadOffsets(std::span<const Piece> pieces, const HopCodecs& codecs);

// Fills the payload of a message, what comes behind its header. `source` holds at least the piece.
void EncodePiece(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
                 const Image& source, std::span<std::byte> payload);
// The same for a piece whose `residual` (in `owed`, a codec) is sent with it and renewed.
void EncodeWithResidual(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
                        const Image& source, const codec::Codec& owed,
                        std::span<std::byte> residual, std::span<std::byte> payload);
// The inverse, into `target`.
void DecodePiece(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
                 std::span<const std::byte> payload, const Image& target);

// The same where the matrix range holds differences, which are added to what `target` has there.
void DecodeDifference(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
                      std::span<const std::byte> payload, const Image& target);

// One summand of SumPieces: the payload of a message, or this rank's own values.
struct PieceTerm {
  std::span<const std::byte> payload;
  const Image* own = nullptr;  // used when set
};
// target = (accumulate ? target : 0) + terms, in order; target is fp32. At most kMaxTerms terms.
constexpr size_t kMaxTerms = 1024;
void SumPieces(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
               std::span<const PieceTerm> terms, bool accumulate, const Image& target);

}  // namespace thinwire::comm
