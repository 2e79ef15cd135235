#include "thinwire/comm/piece.h"

#include <algorithm>
#include <array>

#include "thinwire/base/error.h"

namespace thinwire::comm {
namespace {

constexpr int64_t kVectorAlignment = 8;

int64_t VectorOffset(const Piece& piece, const HopCodecs& codecs) {
  const int64_t end = kHeaderBytes + codecs.matrix->EncodedBytes(piece.matrix_runs);
  return (end + kVectorAlignment - 1) / kVectorAlignment * kVectorAlignment;
}

template <typename Span>
Span MatrixPart(const Piece& piece, const HopCodecs& codecs, Span message) {
  return message.subspan(static_cast<size_t>(kHeaderBytes),
                         static_cast<size_t>(codecs.matrix->EncodedBytes(piece.matrix_runs)));
}

template <typename Span>
Span VectorPart(const Piece& piece, const HopCodecs& codecs, Span message) {
  return message.subspan(static_cast<size_t>(VectorOffset(piece, codecs)),
                         static_cast<size_t>(codecs.vector->EncodedBytes(piece.vector_runs)));
}

}  // namespace

Image MakeImage(std::byte* data, DType dtype, Range matrix, Range vector) {
  return {Array(data, dtype, matrix.size()), matrix.begin,
          Array(data + matrix.size() * SizeOf(dtype), dtype, vector.size()), vector.begin};
}

int64_t MessageBytes(const Piece& piece, const HopCodecs& codecs) {
  if (piece.empty()) return 0;
  return VectorOffset(piece, codecs) + codecs.vector->EncodedBytes(piece.vector_runs);
}

void EncodePiece(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
                 const Image& source, std::span<std::byte> message) {
  codecs.matrix->Encode(context, source.Matrix(piece.matrix), piece.matrix_runs,
                        MatrixPart(piece, codecs, message));
  // The padding is part of what is sent: leave no old bytes in it.
  const auto matrix_end =
      static_cast<size_t>(kHeaderBytes + codecs.matrix->EncodedBytes(piece.matrix_runs));
  std::ranges::fill(
      message.subspan(matrix_end, static_cast<size_t>(VectorOffset(piece, codecs)) - matrix_end),
      std::byte{0});
  codecs.vector->Encode(context, source.Vector(piece.vector), piece.vector_runs,
                        VectorPart(piece, codecs, message));
}

void DecodePiece(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
                 std::span<const std::byte> message, const Image& target) {
  codecs.matrix->Decode(context, MatrixPart(piece, codecs, message), piece.matrix_runs,
                        target.Matrix(piece.matrix));
  codecs.vector->Decode(context, VectorPart(piece, codecs, message), piece.vector_runs,
                        target.Vector(piece.vector));
}

void SumPieces(const ExecContext& context, const Piece& piece, const HopCodecs& codecs,
               std::span<const PieceTerm> terms, bool accumulate, const Image& target) {
  THINWIRE_CHECK(!terms.empty() && terms.size() <= kMaxTerms, terms.size());
  std::array<codec::Term, kMaxTerms> region_terms;
  const std::span<const codec::Term> used(region_terms.data(), terms.size());
  for (size_t i = 0; i < terms.size(); ++i) {
    region_terms[i] = terms[i].own ? codec::Term{{}, terms[i].own->Matrix(piece.matrix)}
                                   : codec::Term{MatrixPart(piece, codecs, terms[i].message), {}};
  }
  codecs.matrix->DecodeSum(context, used, piece.matrix_runs, accumulate,
                           target.Matrix(piece.matrix).As<float>());
  for (size_t i = 0; i < terms.size(); ++i) {
    region_terms[i] = terms[i].own ? codec::Term{{}, terms[i].own->Vector(piece.vector)}
                                   : codec::Term{VectorPart(piece, codecs, terms[i].message), {}};
  }
  codecs.vector->DecodeSum(context, used, piece.vector_runs, accumulate,
                           target.Vector(piece.vector).As<float>());
}

}  // namespace thinwire::comm
