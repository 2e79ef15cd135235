#include "thinwire/comm/piece.h"

#include <algorithm>
#include <array>

#include "thinwire/base/error.h"

namespace thinwire::comm {
namespace {

// Of the vector range, in the payload.
int64_t VectorOffset(const Piece& piece, const HopCodecs& codecs) {
  return PaddedBytes(codecs.matrix->EncodedBytes(piece.matrix_runs));
}

template <typename Span>
Span MatrixPart(const Piece& piece, const HopCodecs& codecs, Span payload) {
  return payload.subspan(0, static_cast<size_t>(codecs.matrix->EncodedBytes(piece.matrix_runs)));
}

template <typename Span>
Span VectorPart(const Piece& piece, const HopCodecs& codecs, Span payload) {
  return payload.subspan(static_cast<size_t>(VectorOffset(piece, codecs)),
                         static_cast<size_t>(codecs.vector->EncodedBytes(piece.vector_runs)));
}

}  // namespace

Image MakeImage(std::byte* data, DType dtype, Range matrix, Range vector) {
  return {Array(data, dtype, matrix.size()), matrix.begin,
          Array(data + matrix.size() * SizeOf(dtype), dtype, vector.size()), vector.begin};
}

int64_t MessageBytes(const Piece& piece, const HopCodecs& codecs) {
  if (piece.empty()) return 0;
  return kHeaderBytes + VectorOffset(piece, codecs) +
         codecs.vector->EncodedBytes(piece.vector_runs);
}

std::vector<int64_t> PayloadOffsets(std::span<const Piece> pieces, const HopCodecs& codecs) {
  std::vector<int64_t> offsets{0};
  for (const Piece& piece : pieces) {
    const int64_t payload = std::max<int64_t>(0, MessageBytes(piece, codecs) - kHeaderBytes);
    offsets.push_back(offsets.back() + PaddedBytes(payload));
  }
  return offsets;
}

int64_t MessageBytes(std::span<const Piece> pieces, const HopCodecs& codecs) {
  if (pieces.size() == 1) return MessageBytes(pieces[0], codecs);
  const int64_t payload = PayloadOffsets(pieces, codecs).back();
  return payload == 0 ? 0 : kHeaderBytes + payload;
}

void EncodePiece(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
                 const Image& source, std::span<std::byte> payload) {
  codecs.matrix->Encode(context, source.Matrix(piece.matrix), piece.matrix_runs,
                        MatrixPart(piece, codecs, payload));
  // The padding is part of what is sent: leave no old bytes in it.
  const auto matrix_end = static_cast<size_t>(codecs.matrix->EncodedBytes(piece.matrix_runs));
  std::ranges::fill(
      payload.subspan(matrix_end, static_cast<size_t>(VectorOffset(piece, codecs)) - matrix_end),
      std::byte{0});
  codecs.vector->Encode(context, source.Vector(piece.vector), piece.vector_runs,
                        VectorPart(piece, codecs, payload));
}

void EncodeWithResidual(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
                        const Image& source, const codec::Codec& owed,
                        std::span<std::byte> residual, std::span<std::byte> payload) {
  const std::span<float> values = source.Matrix(piece.matrix).As<float>();
  owed.DecodeAdd(context, residual, piece.matrix_runs, values);
  EncodePiece(context, piece, codecs, source, payload);
  codecs.matrix->DecodeSubtract(context, MatrixPart(piece, codecs, payload), piece.matrix_runs,
                                values);
  owed.Encode(context, std::span<const float>(values), piece.matrix_runs, residual);
  // A sum of micro-batches may be sent again: zero/engine_gradients.cc, ForgetResidual.
  codecs.matrix->DecodeAdd(context, MatrixPart(piece, codecs, payload), piece.matrix_runs, values);
}

void DecodePiece(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
                 std::span<const std::byte> payload, const Image& target) {
  codecs.matrix->Decode(context, MatrixPart(piece, codecs, payload), piece.matrix_runs,
                        target.Matrix(piece.matrix));
  codecs.vector->Decode(context, VectorPart(piece, codecs, payload), piece.vector_runs,
                        target.Vector(piece.vector));
}

void DecodeDifference(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
                      std::span<const std::byte> payload, const Image& target) {
  codecs.matrix->DecodeAdd(context, MatrixPart(piece, codecs, payload), piece.matrix_runs,
                           target.Matrix(piece.matrix));
  codecs.vector->Decode(context, VectorPart(piece, codecs, payload), piece.vector_runs,
                        target.Vector(piece.vector));
}

void SumPieces(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
               std::span<const PieceTerm> terms, bool accumulate, const Image& target) {
  THINWIRE_CHECK(!terms.empty() && terms.size() <= kMaxTerms, terms.size());
  std::array<codec::Term, kMaxTerms> region_terms;
  const std::span<const codec::Term> used(region_terms.data(), terms.size());
  for (size_t i = 0; i < terms.size(); ++i) {
    region_terms[i] = terms[i].own ? codec::Term{{}, terms[i].own->Matrix(piece.matrix)}
                                   : codec::Term{MatrixPart(piece, codecs, terms[i].payload), {}};
  }
  codecs.matrix->DecodeSum(context, used, piece.matrix_runs, accumulate,
                           target.Matrix(piece.matrix).As<float>());
  for (size_t i = 0; i < terms.size(); ++i) {
    region_terms[i] = terms[i].own ? codec::Term{{}, terms[i].own->Vector(piece.vector)}
                                   : codec::Term{VectorPart(piece, codecs, terms[i].payload), {}};
  }
  codecs.vector->DecodeSum(context, used, piece.vector_runs, accumulate,
                           target.Vector(piece.vector).As<float>());
}

}  // namespace thinwire::comm
