#include "thinwire/comm/exchange.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "thinwire/base/random.h"
#include "thinwire/comm/exchange_testing.h"
#include "thinwire/kernels/convert.h"
#include "thinwire/transport/counting_transport.h"
#include "thinwire/transport/thread_ranks.h"
#include "thinwire/transport/thread_transport.h"

namespace thinwire::comm {
namespace {

// Sizes of matrices, and of vectors.
using Sizes = std::pair<std::vector<int64_t>, std::vector<int64_t>>;

const std::vector<Sizes>& FlatSizes() {
  static const std::vector<Sizes> sizes = {
      {{}, {}},
      {{}, {0}},
      {{}, {1}},
      {{1}, {}},
      {{}, {7919}},
      {{2 * 3 * 5}, {127}},
      {{3 * 4 * 5 * 6, 0, 64 * 33}, {1}},
      {{129 * 31, 2 * 2 * 2 * 2}, {1031, 13}},
  };
  return sizes;
}

float Value(int rank, int64_t i) {
  return static_cast<float>(
      CounterRandom(77 + static_cast<uint64_t>(rank)).Normal(static_cast<uint64_t>(i)));
}

std::vector<float> ValuesOf(int rank, int64_t size) {
  std::vector<float> values(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) values[static_cast<size_t>(i)] = Value(rank, i);
  return values;
}

// x after a journey through `dtype`.
float Through(DType dtype, float x) {
  std::array<std::byte, 4> bytes;
  std::array<float, 1> value{x};
  kernels::Convert({}, ConstArray(std::span<const float>(value)), Array(bytes.data(), dtype, 1));
  kernels::Convert({}, ConstArray(bytes.data(), dtype, 1), Array(std::span<float>(value)));
  return value[0];
}

struct Case {
  int members;
  DType dtype;
  size_t sizes;
};

class ExchangeOfRanks : public testing::TestWithParam<Case> {
 protected:
  // Runs `uses` exchanges on every rank and checks what was sent.
  void Run(Direction direction, int uses,
           const std::function<void(int, const Flat&, std::vector<float>&, const Exchange&,
                                    const ExchangeShape&, MessageSlot&, HopTraffic&)>& body) {
    const Case c = GetParam();
    const auto& [matrices, vectors] = FlatSizes()[c.sizes];
    const Flat flat(matrices, vectors, c.members);
    const HopCodecs codecs{&codec::Raw(c.dtype), &codec::Raw(c.dtype)};
    transport::ThreadFabric fabric(c.members);
    transport::RunRanks(fabric, [&](int rank) {
      const ExchangeShape shape = flat.ShapeOf(direction, c.members, rank, codecs);
      transport::CountingTransport counted(fabric.transport(rank));
      const Exchange exchange(counted, {});
      MessageSlot slot(shape.room(), c.members);
      HopTraffic traffic;
      std::vector<float> values = ValuesOf(rank, flat.size());
      body(rank, flat, values, exchange, shape, slot, traffic);
      EXPECT_EQ(counted.sent().bytes, uses * shape.sent_bytes());
      EXPECT_EQ(counted.sent().messages, uses * shape.sent_messages());
      EXPECT_EQ(traffic.bytes.load(), uses * shape.sent_bytes());
      EXPECT_EQ(traffic.messages.load(), uses * shape.sent_messages());
    });
  }
};

TEST_P(ExchangeOfRanks, GatherGivesEverybodysPieceThroughTheCodec) {
  const Case c = GetParam();
  Run(Direction::kGather, 1,
      [&](int, const Flat& flat, std::vector<float>& values, const Exchange& exchange,
          const ExchangeShape& shape, MessageSlot& slot, HopTraffic& traffic) {
        const Stamp stamp{.tag = 5, .fingerprint = 99};
        std::vector<float> gathered(values.size(), std::nanf(""));
        exchange.PostReceives(shape, stamp, slot);
        exchange.Send(shape, stamp, flat.ImageOf(values), slot, traffic);
        exchange.CompleteGather(shape, stamp, flat.ImageOf(values), flat.ImageOf(gathered), slot);
        for (int owner = 0; owner < c.members; ++owner) {
          const Piece piece = flat.PieceOf(owner);
          const auto check = [&](Range range, int64_t base) {
            for (int64_t i = base + range.begin; i < base + range.end; ++i) {
              const float expected = Value(owner, i);
              ASSERT_EQ(gathered[static_cast<size_t>(i)],
                        c.members == 1 ? expected : Through(c.dtype, expected));
            }
          };
          check(piece.matrix, 0);
          check(piece.vector, flat.matrix.size());
        }
      });
}

TEST_P(ExchangeOfRanks, ReduceSumsInMemberOrderAndAccumulates) {
  const Case c = GetParam();
  Run(Direction::kReduce, 2,
      [&](int rank, const Flat& flat, std::vector<float>& values, const Exchange& exchange,
          const ExchangeShape& shape, MessageSlot& slot, HopTraffic& traffic) {
        std::vector<float> sum(values.size(), std::nanf(""));
        for (const bool accumulate : {false, true}) {
          const Stamp stamp{.tag = accumulate ? 1u : 0u, .fingerprint = 3, .next = 4};
          exchange.PostReceives(shape, stamp, slot);
          exchange.Send(shape, stamp, flat.ImageOf(values), slot, traffic);
          exchange.CompleteReduce(shape, stamp, flat.ImageOf(values), accumulate, flat.ImageOf(sum),
                                  slot);
        }
        const Piece piece = flat.PieceOf(rank);
        for (int64_t i = 0; i < flat.size(); ++i) {
          const bool mine = i < flat.matrix.size() ? i >= piece.matrix.begin && i < piece.matrix.end
                                                   : i >= flat.matrix.size() + piece.vector.begin &&
                                                         i < flat.matrix.size() + piece.vector.end;
          if (!mine) {
            ASSERT_TRUE(std::isnan(sum[static_cast<size_t>(i)]));
            continue;
          }
          // The exact sum of what was sent, in order, twice; and within the rounding of the codec
          // (2^-p for p bits of significand, or half the smallest step of fp16) of the sum of what
          // was meant.
          float expected = 0;
          double meant = 0, bound = 0;
          const double roundoff = c.dtype == DType::kBF16  ? 0x1p-8
                                  : c.dtype == DType::kF16 ? 0x1p-11
                                                           : 0;
          for (int round = 0; round < 2; ++round) {
            for (int m = 0; m < c.members; ++m) {
              const float x = Value(m, i);
              const float sent = m == rank ? x : Through(c.dtype, x);
              expected = round == 0 && m == 0 ? sent : expected + sent;
              meant += x;
              // Plus fp32 rounding of each addition to a sum of magnitude below 64.
              bound += (m == rank ? 0 : std::abs(x) * roundoff + 0x1p-25) + 0x1p-19;
            }
          }
          ASSERT_EQ(sum[static_cast<size_t>(i)], expected) << i;
          ASSERT_NEAR(sum[static_cast<size_t>(i)], meant, bound) << i;
        }
      });
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const int members : {1, 2, 3, 4, 7}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (size_t s = 0; s < FlatSizes().size(); ++s) cases.push_back({members, dtype, s});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, ExchangeOfRanks, testing::ValuesIn(Cases()), [](const auto& test) {
  return StrCat(test.param.members, "_", NameOf(test.param.dtype), "_sizes", test.param.sizes);
});

// Two ranks gather 300 elements; `change` alters what rank 1 stamps or sends.
std::string ErrorOfRank0(const std::function<void(Stamp&)>& change) {
  std::string error;
  transport::ThreadFabric fabric(2);
  transport::RunRanks(fabric, [&](int rank) {
    const Flat flat({}, {300}, 2);
    const HopCodecs codecs{&codec::Raw(DType::kF32), &codec::Raw(DType::kF32)};
    const ExchangeShape shape = flat.ShapeOf(Direction::kGather, 2, rank, codecs);
    const Exchange exchange(fabric.transport(rank), {});
    MessageSlot slot(shape.room(), 2);
    HopTraffic traffic;
    std::vector<float> values = ValuesOf(rank, flat.size());
    Stamp stamp{.tag = 1, .fingerprint = 10, .next = 20};
    exchange.PostReceives(shape, stamp, slot);
    if (rank == 1) change(stamp);
    exchange.Send(shape, stamp, flat.ImageOf(values), slot, traffic);
    try {
      exchange.CompleteGather(shape, stamp, flat.ImageOf(values), flat.ImageOf(values), slot);
    } catch (const PeerError& caught) {
      if (rank == 0) error = caught.what();
    }
  });
  return error;
}

TEST(Exchange, NoticesAnotherExchangeOfAPeer) {
  EXPECT_EQ(ErrorOfRank0([](Stamp&) {}), "");
  EXPECT_EQ(ErrorOfRank0([](Stamp& stamp) { stamp.next = 0; }), "");
  EXPECT_NE(ErrorOfRank0([](Stamp& stamp) { stamp.fingerprint = 11; }).find("rank 1 sent another"),
            std::string::npos);
  EXPECT_NE(ErrorOfRank0([](Stamp& stamp) { stamp.next = 21; }).find("another next exchange"),
            std::string::npos);
}

TEST(Exchange, NoticesBytesThatAreNoMessage) {
  for (const size_t byte : {size_t{0}, size_t{4}, size_t{8}}) {  // magic, version, payload
    transport::ThreadFabric fabric(2);
    std::string error;
    transport::RunRanks(fabric, [&](int rank) {
      const Flat flat({}, {256}, 2);
      const HopCodecs codecs{&codec::Raw(DType::kF32), &codec::Raw(DType::kF32)};
      const ExchangeShape shape = flat.ShapeOf(Direction::kGather, 2, rank, codecs);
      if (rank == 1) {
        Header header{.payload_bytes = 512, .fingerprint = 1};
        std::vector<std::byte> message(512 + sizeof(Header)), theirs(message.size());
        std::memcpy(message.data(), &header, sizeof(header));
        message[byte] ^= std::byte{1};
        const auto in = fabric.transport(1).Recv({}, 0, 1, theirs);
        fabric.transport(1).Send({}, 0, 1, message)->Wait();
        return in->Wait();
      }
      const Exchange exchange(fabric.transport(0), {});
      MessageSlot slot(shape.room(), 2);
      HopTraffic traffic;
      std::vector<float> values(256);
      const Stamp stamp{.tag = 1, .fingerprint = 1};
      exchange.PostReceives(shape, stamp, slot);
      exchange.Send(shape, stamp, flat.ImageOf(values), slot, traffic);
      try {
        exchange.CompleteGather(shape, stamp, flat.ImageOf(values), flat.ImageOf(values), slot);
      } catch (const PeerError& caught) {
        error = caught.what();
      }
    });
    EXPECT_NE(error.find("rank 1"), std::string::npos) << "byte " << byte << ": " << error;
  }
}

// What rank 0 says when rank 1's message of 128 numbers is changed on its way.
std::string ErrorAfter(Damage damage, bool receiver_checks, bool sender_checks) {
  std::string error;
  transport::ThreadFabric fabric(2);
  transport::RunRanks(fabric, [&](int rank) {
    const Flat flat({}, {256}, 2);
    const HopCodecs codecs{&codec::Raw(DType::kF32), &codec::Raw(DType::kF32)};
    const ExchangeShape shape = flat.ShapeOf(Direction::kGather, 2, rank, codecs);
    DamagingTransport link(fabric.transport(rank), rank == 1 ? damage : Damage{});
    const Exchange exchange(link, {}, rank == 1 ? sender_checks : receiver_checks);
    MessageSlot slot(shape.room(), 2);
    HopTraffic traffic;
    std::vector<float> values = ValuesOf(rank, flat.size());
    const Stamp stamp{.tag = 1, .fingerprint = 1};
    exchange.PostReceives(shape, stamp, slot);
    exchange.Send(shape, stamp, flat.ImageOf(values), slot, traffic);
    try {
      exchange.CompleteGather(shape, stamp, flat.ImageOf(values), flat.ImageOf(values), slot);
    } catch (const PeerError& caught) {
      if (rank == 0) error = caught.what();
    }
  });
  return error;
}

constexpr size_t kFlagsByte = 32;
constexpr size_t kLastByte = sizeof(Header) + 128 * sizeof(float) - 1;

TEST(Exchange, AChecksumFindsDamage) {
  EXPECT_EQ(ErrorAfter({}, false, false), "");
  EXPECT_EQ(ErrorAfter({}, true, true), "");
  EXPECT_EQ(ErrorAfter({0, kLastByte, std::byte{1}}, false, false), "");
  EXPECT_EQ(ErrorAfter({0, kLastByte, std::byte{1}}, true, true),
            "a message of rank 1 arrived damaged: its checksum does not fit its 512 bytes");
  EXPECT_EQ(ErrorAfter({0, kLastByte, std::byte{1}}, false, true),
            ErrorAfter({0, kLastByte, std::byte{1}}, true, true));
}

// The flag is not covered by the sum that it announces: losing it must not switch the check off.
TEST(Exchange, AMessageThatLostItsChecksumIsRefused) {
  const std::string words =
      "a message of rank 1 came without its checksum: set parallel.checksum alike on all ranks, or "
      "look for what damaged the message";
  EXPECT_EQ(ErrorAfter({0, kFlagsByte, std::byte{1}}, true, true), words);
  EXPECT_EQ(ErrorAfter({}, true, false), words);
}

TEST(Exchange, FlagsThatAreNotKnownAreRefusedAsSuch) {
  for (const bool checksum : {false, true}) {
    EXPECT_EQ(ErrorAfter({0, kFlagsByte, std::byte{2}}, checksum, checksum),
              StrCat("a message of rank 1 has flags ", checksum ? 3 : 2,
                     ", which this version of thinwire does not know: run the same build on all "
                     "hosts, or look for what damaged the message"));
  }
}

}  // namespace
}  // namespace thinwire::comm
