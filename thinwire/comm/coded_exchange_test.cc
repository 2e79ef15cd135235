#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/codec/by_name.h"
#include "thinwire/codec/message_coder.h"
#include "thinwire/comm/coded_message.h"
#include "thinwire/comm/exchange.h"
#include "thinwire/comm/exchange_testing.h"
#include "thinwire/transport/counting_transport.h"
#include "thinwire/transport/thread_ranks.h"
#include "thinwire/transport/thread_transport.h"

namespace thinwire::comm {
namespace {

using CodecPtr = std::shared_ptr<const codec::Codec>;

HopCodecs CodecsOf(const CodecPtr& codec, bool coded) {
  return {codec.get(), &codec::Raw(DType::kF32), coded ? codec->coder() : nullptr};
}

// Values whose codes need more or less room from use to use: a share of them is 0.
std::vector<float> ValuesOf(int rank, int use, double zeros, int64_t size) {
  const CounterRandom random(static_cast<uint64_t>(1000 * rank + use));
  std::vector<float> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_zero = CounterRandom(i / 64).Uniform(static_cast<uint64_t>(use)) < zeros;
    const uint64_t bits = random.Bits(i);  // four uniform numbers, nearly normal by their sum
    const uint64_t sum =
        (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
    const float x = (static_cast<float>(sum) - 131070) * 2.6e-5f;
    values[i] = is_zero ? 0.0f : x * std::abs(x);
  }
  return values;
}

struct Case {
  Direction direction;
  int members;
  uint32_t lag;
  const char* codec;
};

// What one rank holds after an exchange, and what it sent.
struct Result {
  std::vector<float> values;
  int64_t bytes = 0;
  int64_t messages = 0;
};

// Uses of one exchange, `lag` of them in flight as in a lane, on one rank.
class Uses {
 public:
  Uses(const Case& c, const Flat& flat, int rank, transport::Transport& transport, bool coded)
      : case_(c),
        flat_(flat),
        rank_(rank),
        codec_(codec::ByName(c.codec, "hop")),
        shape_(flat.ShapeOf(c.direction, c.members, rank, CodecsOf(codec_, coded))),
        sizes_(c.members, c.lag),
        exchange_(transport, {SupportedIsas()[static_cast<size_t>(rank) % SupportedIsas().size()]},
                  true) {
    for (uint32_t i = 0; i < c.lag; ++i) slots_.emplace_back(shape_.room(), c.members);
  }

  std::vector<Result> Run(const std::vector<double>& zeros) {
    results_.resize(zeros.size());
    const size_t lag = case_.lag;
    for (size_t use = 0; use < zeros.size() + lag - 1; ++use) {
      if (use < zeros.size()) Begin(use, zeros[use]);
      if (use + 1 >= lag) End(use + 1 - lag);
    }
    return results_;
  }
  const ExchangeShape& shape() const { return shape_; }

 private:
  Stamp StampOf(size_t use) {
    return {.tag = static_cast<transport::Tag>(use), .fingerprint = 7 + use, .sizes = &sizes_};
  }
  MessageSlot& SlotOf(size_t use) { return slots_[use % slots_.size()]; }

  void Begin(size_t use, double zeros) {
    sources_.push_back(ValuesOf(rank_, static_cast<int>(use), zeros, flat_.size()));
    exchange_.PostReceives(shape_, StampOf(use), SlotOf(use));
    HopTraffic traffic;
    exchange_.Send(shape_, StampOf(use), flat_.ImageOf(sources_[use]), SlotOf(use), traffic);
    results_[use].bytes = traffic.bytes;
    results_[use].messages = traffic.messages;
    EXPECT_EQ(SlotOf(use).sent_bytes(), traffic.bytes);
  }
  void End(size_t use) {
    std::vector<float>& values = results_[use].values;
    values.assign(static_cast<size_t>(flat_.size()), -5.0f);
    const Image source = flat_.ImageOf(sources_[use]), target = flat_.ImageOf(values);
    if (case_.direction == Direction::kGather) {
      exchange_.CompleteGather(shape_, StampOf(use), source, target, SlotOf(use));
    } else {
      exchange_.CompleteReduce(shape_, StampOf(use), source, use % 2 == 1, target, SlotOf(use));
    }
  }

  Case case_;
  const Flat& flat_;
  int rank_;
  CodecPtr codec_;
  ExchangeShape shape_;
  MessageSizes sizes_;
  Exchange exchange_;
  std::vector<MessageSlot> slots_;
  std::vector<std::vector<float>> sources_;
  std::vector<Result> results_;
};

// By rank and use.
std::vector<std::vector<Result>> RunAll(const Case& c, const Flat& flat, bool coded,
                                        const std::vector<double>& zeros) {
  std::vector<std::vector<Result>> results(static_cast<size_t>(c.members));
  transport::ThreadFabric fabric(c.members);
  transport::RunRanks(fabric, [&](int rank) {
    transport::CountingTransport counted(fabric.transport(rank));
    Uses uses(c, flat, rank, counted, coded);
    auto& mine = results[static_cast<size_t>(rank)];
    mine = uses.Run(zeros);
    int64_t bytes = 0, messages = 0;
    for (const Result& result : mine) {
      bytes += result.bytes;
      messages += result.messages;
      EXPECT_LE(result.bytes, uses.shape().sent_bytes());
    }
    EXPECT_EQ(counted.sent().bytes, bytes);
    EXPECT_EQ(counted.sent().messages, messages);
  });
  return results;
}

class CodedExchange : public testing::TestWithParam<Case> {};

TEST_P(CodedExchange, BringsTheValuesOfThePlainOne) {
  const Case c = GetParam();
  const std::vector<double> zeros{0, 0.9, 0.9, 0, 0.5, 1, 1, 0, 0};
  // Several parameters; shards of different sizes; members without any.
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> flats = {
      {{40'000, 3000, 129}, {200}}, {{300}, {}}, {{}, {700}}, {{}, {}}, {{130, 5}, {1}}};
  for (const auto& [matrices, vectors] : flats) {
    const Flat flat(matrices, vectors, c.members);
    const auto plain = RunAll(c, flat, false, zeros), coded = RunAll(c, flat, true, zeros);
    for (size_t rank = 0; rank < plain.size(); ++rank) {
      for (size_t use = 0; use < zeros.size(); ++use) {
        const Result& a = plain[rank][use];
        const Result& b = coded[rank][use];
        ASSERT_TRUE(std::ranges::equal(std::as_bytes(std::span(a.values)),
                                       std::as_bytes(std::span(b.values))))
            << "rank " << rank << " use " << use;
      }
    }
    if (c.members == 1 || matrices.empty() || matrices[0] < 1000) continue;
    // The same values again: what was announced suffices, and is less.
    const Result& before = plain[0].back();
    const Result& last = coded[0].back();
    EXPECT_LT(last.bytes, before.bytes);
    int64_t more_messages = 0;
    for (size_t use = 0; use < zeros.size(); ++use) {
      more_messages += coded[0][use].messages - plain[0][use].messages;
    }
    // After the 90 % and the zeros, which were announced.
    EXPECT_GE(more_messages, c.members - 1);
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Direction direction : {Direction::kGather, Direction::kReduce}) {
    for (const int members : {1, 2, 3, 4}) {
      for (const uint32_t lag : {1u, 3u}) {
        if (members == 1 && lag > 1) continue;
        for (const char* codec : {"int4/128/coded", "ternary/128/coded", "rot32+int8/128/coded"}) {
          cases.push_back({direction, members, lag, codec});
        }
      }
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, CodedExchange, testing::ValuesIn(Cases()), [](const auto& test) {
  std::string name = StrCat(test.param.direction == Direction::kGather ? "gather" : "reduce",
                            test.param.members, "_lag", test.param.lag, "_", test.param.codec);
  std::ranges::replace_if(
      name, [](char c) { return c == '/' || c == '+'; }, '_');
  return name;
});

// Once the sizes have settled, a message is hardly longer than its code.
TEST(CodedExchange, SettlesNearTheCode) {
  const Case c{Direction::kGather, 2, 1, "ternary/128/coded"};
  const Flat flat({1'000'000}, {}, 2);
  const Result last = RunAll(c, flat, true, {0, 0, 0})[0].back();
  std::vector<float> values = ValuesOf(0, 2, 0, flat.size());
  const Piece piece = flat.PieceOf(0);
  const CodecPtr codec = codec::ByName(c.codec, "hop");
  std::vector<std::byte> plain(static_cast<size_t>(codec->EncodedBytes(piece.matrix_runs)));
  codec->Encode({}, flat.ImageOf(values).Matrix(piece.matrix), piece.matrix_runs, plain);
  std::vector<std::byte> code(static_cast<size_t>(codec->coder()->MostBytes(piece.matrix_runs)));
  const int64_t bytes = codec->coder()->Code({}, plain, piece.matrix_runs, code);
  EXPECT_LT(bytes, std::ssize(plain) * 9 / 10);
  EXPECT_LE(last.bytes, bytes + bytes / 100 + 200);
  EXPECT_EQ(last.messages, 1);
}

// Codes that are kept or passed on are plain.
TEST(CodedExchange, AGatherIntoCodesHasPlainOnes) {
  const CodecPtr codec = codec::ByName("int8/128/coded", "hop");
  const Flat flat({5000}, {10}, 2);
  transport::ThreadFabric fabric(2);
  std::array<std::vector<std::byte>, 2> coded, plain;
  transport::RunRanks(fabric, [&](int rank) {
    for (const bool is_coded : {false, true}) {
      const ExchangeShape shape =
          flat.ShapeOf(Direction::kGather, 2, rank, CodecsOf(codec, is_coded));
      MessageSizes sizes(2, 1);
      const Exchange exchange(fabric.transport(rank), {});
      MessageSlot slot(shape.room(), 2);
      HopTraffic traffic;
      std::vector<float> values = ValuesOf(rank, 0, 0, flat.size());
      auto& codes = (is_coded ? coded : plain)[static_cast<size_t>(rank)];
      codes.resize(static_cast<size_t>(shape.offsets[0].back() + shape.offsets[1].back()));
      const Operand target({}, codes);
      const Stamp stamp{.tag = is_coded, .fingerprint = 1, .sizes = &sizes};
      exchange.PostReceives(shape, stamp, slot);
      exchange.Send(shape, stamp, flat.ImageOf(values), slot, traffic);
      exchange.CompleteGather(shape, stamp, flat.ImageOf(values), target, slot);
    }
  });
  EXPECT_EQ(coded[0], plain[0]);
  EXPECT_EQ(coded[1], plain[0]);
}

// What rank 0 says when the `message`-th message of rank 1 (0 and 1, then 2 in two parts) is
// damaged.
std::string ErrorAfter(int64_t message, size_t byte) {
  std::string error;
  const Flat flat({40'000}, {}, 2);
  transport::ThreadFabric fabric(2);
  transport::RunRanks(fabric, [&](int rank) {
    DamagingTransport link(fabric.transport(rank),
                           {rank == 1 ? message : -1, byte, std::byte{0x10}});
    Uses uses({Direction::kGather, 2, 1, "int4/128/coded"}, flat, rank, link, true);
    try {
      uses.Run({1, 1, 0});
    } catch (const PeerError& caught) {
      if (rank == 0) error = caught.what();
      fabric.transport(rank).Abort("damaged");
    }
  });
  return error;
}

TEST(CodedExchange, NoticesDamage) {
  EXPECT_EQ(ErrorAfter(-1, 0), "");
  for (const int64_t message : {0, 2}) {
    // Of the headers: sizes, which are used before the whole message is there.
    for (const size_t byte : {8u, 9u, 12u, 15u, 40u, 43u, 47u, 48u, 55u}) {
      EXPECT_NE(ErrorAfter(message, byte).find("a coded message of rank 1 arrived damaged"),
                std::string::npos)
          << message << " " << byte << ": " << ErrorAfter(message, byte);
    }
    EXPECT_NE(ErrorAfter(message, 60).find("checksum does not fit"), std::string::npos);
  }
  EXPECT_NE(ErrorAfter(3, 100).find("checksum does not fit"), std::string::npos);
}

TEST(AnnouncedSize, CountsAfterTheLag) {
  AnnouncedSize size;
  EXPECT_EQ(size.At(5, 3, 1000), 1000);
  size.Announce(5, 700);
  size.Announce(6, 800);
  EXPECT_EQ(size.At(7, 3, 1000), 1000);
  EXPECT_EQ(size.At(8, 3, 1000), 700);
  EXPECT_EQ(size.At(9, 3, 1000), 800);
  EXPECT_EQ(size.At(9, 3, 750), 750);
  for (transport::Tag tag = 9; tag < 20; ++tag) {
    size.Announce(tag, 100 + tag);
    if (tag < 11) continue;
    EXPECT_EQ(size.At(tag + 1, 3, 1000), 100 + tag - 2);
  }
  // Tags of a lane start again after 2^29.
  size.Announce(0x3fffffff, 300);
  EXPECT_EQ(size.At(0x20000001, 2, 1000), 300);
}

}  // namespace
}  // namespace thinwire::comm
