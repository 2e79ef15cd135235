#include "thinwire/comm/piece.h"

#include <gtest/gtest.h>

#include <cstring>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/base/error.h"

namespace thinwire::comm {
namespace {

HopCodecs RawCodecs(DType matrix, DType vector) {
  return {&codec::Raw(matrix), &codec::Raw(vector)};
}

std::vector<uint8_t> Bytes(std::span<const std::byte> bytes) {
  std::vector<uint8_t> result(bytes.size());
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

std::span<std::byte> PayloadOf(std::vector<std::byte>& message) {
  return std::span(message).subspan(static_cast<size_t>(kHeaderBytes));
}

TEST(Header, GoldenBytes) {
  const Header header{.payload_bytes = 0x0102030405060708,
                      .fingerprint = 0x1112131415161718,
                      .next = 0x2122232425262728,
                      .flags = Header::kChecksummed,
                      .crc32c = 0x31323334};
  const std::vector<uint8_t> expected = {
      0x74, 0x57, 0x77, 0x31, 2,    0,    0,    0,     // "tWw1", version 2
      8,    7,    6,    5,    4,    3,    2,    1,     // payload bytes
      0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,  // fingerprint
      0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,  // next
      1,    0,    0,    0,    0x34, 0x33, 0x32, 0x31,  // flags, checksum
  };
  EXPECT_EQ(Bytes(std::as_bytes(std::span(&header, 1))), expected);
}

// Three matrix and two vector elements in bf16: 40 + 6 + 2 of padding + 4 bytes.
TEST(Piece, GoldenBytesOfAMessage) {
  const Partition matrix(std::vector<int64_t>{3}, 1, 1), vector(std::vector<int64_t>{2}, 1, 1);
  const Piece piece(matrix, {0, 3}, vector, {0, 2});
  const HopCodecs codecs = RawCodecs(DType::kBF16, DType::kBF16);
  ASSERT_EQ(MessageBytes(piece, codecs), 52);

  std::array<float, 5> values{1.0f, -2.0f, 0.5f, 3.0f, -0.0f};
  const Image image =
      MakeImage(reinterpret_cast<std::byte*>(values.data()), DType::kF32, {0, 3}, {0, 2});
  std::vector<std::byte> message(52, std::byte{0xee});
  EncodePiece({}, piece, codecs, image, PayloadOf(message));
  const std::vector<uint8_t> expected = {0x80, 0x3f, 0x00, 0xc0, 0x00, 0x3f,  // the matrix
                                         0,    0,                             // padding
                                         0x40, 0x40, 0x00, 0x80};             // the vector
  EXPECT_EQ(Bytes(std::span(message).subspan(40)), expected);
  // The header is the exchange's.
  EXPECT_EQ(Bytes(std::span(message).first(40)), std::vector<uint8_t>(40, 0xee));

  std::array<float, 5> decoded{};
  DecodePiece({}, piece, codecs, PayloadOf(message),
              MakeImage(reinterpret_cast<std::byte*>(decoded.data()), DType::kF32, {0, 3}, {0, 2}));
  EXPECT_EQ(std::memcmp(decoded.data(), values.data(), sizeof(values)), 0);
}

TEST(Piece, SizesOfEmptyParts) {
  const Partition region(std::vector<int64_t>{300}, 1, 1);
  const HopCodecs codecs = RawCodecs(DType::kF16, DType::kF32);
  EXPECT_EQ(MessageBytes(Piece(), codecs), 0);
  EXPECT_EQ(MessageBytes(Piece(region, {5, 5}, region, {7, 7}), codecs), 0);
  EXPECT_EQ(MessageBytes(Piece(region, {5, 6}, region, {7, 7}), codecs), 40 + 8);
  EXPECT_EQ(MessageBytes(Piece(region, {5, 5}, region, {7, 8}), codecs), 40 + 4);
  EXPECT_EQ(MessageBytes(Piece(region, {0, 4}, region, {7, 8}), codecs), 40 + 8 + 4);
}

// A piece may lie anywhere in larger images; what is around it stays.
TEST(Piece, TouchesOnlyItsRange) {
  const Partition matrix(std::vector<int64_t>{70, 80}, 1, 1),
      vector(std::vector<int64_t>{40}, 1, 1);
  const Piece piece(matrix, {60, 90}, vector, {10, 15});
  EXPECT_EQ(piece.matrix_runs, (std::vector<int64_t>{10, 20}));
  const HopCodecs codecs = RawCodecs(DType::kF32, DType::kF32);
  std::vector<float> source(100 + 30), target(150 + 40, -1.0f);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i);
  // The source begins at 50 and 5, the target at 0.
  const Image from =
      MakeImage(reinterpret_cast<std::byte*>(source.data()), DType::kF32, {50, 150}, {5, 35});
  const Image to =
      MakeImage(reinterpret_cast<std::byte*>(target.data()), DType::kF32, {0, 150}, {0, 40});
  std::vector<std::byte> message(static_cast<size_t>(MessageBytes(piece, codecs)));
  EncodePiece({}, piece, codecs, from, PayloadOf(message));
  DecodePiece({}, piece, codecs, PayloadOf(message), to);
  for (int64_t i = 0; i < 150; ++i) {
    const float expected = i >= 60 && i < 90 ? static_cast<float>(i - 50) : -1.0f;
    ASSERT_EQ(target[static_cast<size_t>(i)], expected) << i;
  }
  for (int64_t i = 0; i < 40; ++i) {
    const float expected = i >= 10 && i < 15 ? static_cast<float>(100 + i - 5) : -1.0f;
    ASSERT_EQ(target[static_cast<size_t>(150 + i)], expected) << i;
  }
}

TEST(Piece, SumsTermsInOrder) {
  const Partition matrix(std::vector<int64_t>{2}, 1, 1), vector(std::vector<int64_t>{1}, 1, 1);
  const Piece piece(matrix, {0, 2}, vector, {0, 1});
  const HopCodecs codecs = RawCodecs(DType::kF32, DType::kF32);
  const auto image = [](std::array<float, 3>& values) {
    return MakeImage(reinterpret_cast<std::byte*>(values.data()), DType::kF32, {0, 2}, {0, 1});
  };
  // (2^24 + 1) + -2^24 is 0 in fp32 where 2^24 + -2^24 + 1 would be 1.
  std::array<float, 3> a{0x1p24f, 1, 1}, b{1, 2, 2}, c{-0x1p24f, 3, 3}, sum{5, 5, 5};
  std::vector<std::byte> message(static_cast<size_t>(MessageBytes(piece, codecs)));
  EncodePiece({}, piece, codecs, image(b), PayloadOf(message));
  const Image first = image(a), third = image(c);
  const std::array<PieceTerm, 3> terms{
      PieceTerm{{}, &first}, {PayloadOf(message), nullptr}, {{}, &third}};
  SumPieces({}, piece, codecs, terms, false, image(sum));
  EXPECT_EQ(sum, (std::array<float, 3>{0, 6, 6}));
  SumPieces({}, piece, codecs, terms, true, image(sum));
  EXPECT_EQ(sum[1], 12.0f);
  EXPECT_THROW(SumPieces({}, piece, codecs, {}, false, image(sum)), InternalError);
}

}  // namespace
}  // namespace thinwire::comm
