#include "thinwire/comm/agreement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "thinwire/base/error.h"
#include "thinwire/transport/counting_transport.h"
#include "thinwire/transport/thread_ranks.h"
#include "thinwire/transport/thread_transport.h"

namespace thinwire::comm {
namespace {

TEST(Record, IntentIsCutToFit) {
  Record record;
  record.SetIntent(7, "%s %d", "gather", 12);
  EXPECT_EQ(record.Intent(), "gather 12");
  EXPECT_EQ(record.fingerprint, 7u);
  record.SetIntent(8, "%s", std::string(200, 'x').c_str());
  EXPECT_EQ(record.Intent(), std::string(79, 'x'));
  record.SetIntent(8, "short");
  EXPECT_EQ(record.Intent(), "short");
  Record other;
  other.SetIntent(8, "short");
  EXPECT_EQ(record.intent, other.intent);  // nothing of a longer intent is left behind
}

TEST(Agreement, SharesValuesByRankManyTimes) {
  constexpr int kRanks = 5;
  transport::ThreadFabric fabric(kRanks);
  transport::RunRanks(fabric, [&](int rank) {
    transport::CountingTransport counted(fabric.transport(rank));
    Agreement agreement(counted, {});
    for (int round = 0; round < 50; ++round) {
      Record record;
      record.SetIntent(static_cast<uint64_t>(round), "round %d", round);
      record.values[1] = 100 * round + rank;
      record.flags = rank == round % kRanks;
      const auto records = agreement.Exchange(record);
      ASSERT_EQ(records.size(), size_t{kRanks});
      for (int r = 0; r < kRanks; ++r) {
        EXPECT_EQ(records[static_cast<size_t>(r)].values[1], 100 * round + r);
        EXPECT_EQ(records[static_cast<size_t>(r)].flags, r == round % kRanks ? 1u : 0u);
      }
      EXPECT_EQ(SumOf(records, 1), 500 * round + 10);
      EXPECT_EQ(SumOf(records, 0), 0);
    }
    EXPECT_EQ(agreement.sent_bytes(), 50 * 4 * static_cast<int64_t>(sizeof(Record)));
    EXPECT_EQ(counted.sent().bytes, agreement.sent_bytes());
    EXPECT_EQ(counted.sent().messages, 50 * 4);
  });
}

// The error of every rank when rank r sets the intent that `intent` gives it.
std::vector<std::string> Errors(int ranks, const std::function<void(int, Record&)>& intent) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  transport::ThreadFabric fabric(ranks);
  transport::RunRanks(fabric, [&](int rank) {
    Agreement agreement(fabric.transport(rank), {});
    Record record;
    intent(rank, record);
    try {
      agreement.Exchange(record);
    } catch (const PeerError& error) {
      errors[static_cast<size_t>(rank)] = error.what();
    }
  });
  return errors;
}

TEST(Agreement, SumsArraysInRankOrder) {
  for (const int ranks : {1, 2, 5}) {
    transport::ThreadFabric fabric(ranks);
    transport::RunRanks(fabric, [&](int rank) {
      Agreement agreement(fabric.transport(rank), {});
      for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, size_t{3}}) {
        std::vector<double> values(size), wanted(size);
        for (size_t i = 0; i < size; ++i) {
          const auto of = [&](int r) { return std::pow(0.1, r) * (static_cast<double>(i) + 0.3); };
          values[i] = of(rank);
          for (int r = 0; r < ranks; ++r) wanted[i] += of(r);
        }
        agreement.Sum(values);
        EXPECT_EQ(values, wanted);
      }
    });
  }
}

TEST(Agreement, DisagreementNamesRanksAndIntentsAlikeEverywhere) {
  const auto errors = Errors(3, [](int rank, Record& record) {
    if (rank == 2) {
      record.SetIntent(5, "gather of layers.4");
    } else {
      record.SetIntent(4, "gather of layers.3");
    }
  });
  EXPECT_NE(errors[0].find("rank 0 wants gather of layers.3; rank 1 wants gather of layers.3; "
                           "rank 2 wants gather of layers.4"),
            std::string::npos)
      << errors[0];
  EXPECT_EQ(errors[1], errors[0]);
  EXPECT_EQ(errors[2], errors[0]);
}

TEST(Agreement, EqualWordsWithOtherContentsDisagreeToo) {
  const auto errors = Errors(2, [](int rank, Record& record) {
    record.SetIntent(static_cast<uint64_t>(rank) + 40, "a training pass");
  });
  EXPECT_NE(errors[0].find("fingerprint 40"), std::string::npos) << errors[0];
  EXPECT_NE(errors[0].find("fingerprint 41"), std::string::npos) << errors[0];
  EXPECT_EQ(errors[1], errors[0]);
  const auto words =
      Errors(2, [](int rank, Record& record) { record.SetIntent(1, "%s", rank == 0 ? "a" : "b"); });
  EXPECT_NE(words[0].find("rank 1 wants b"), std::string::npos) << words[0];
}

TEST(Agreement, OneRankAlone) {
  transport::ThreadFabric fabric(1);
  Agreement agreement(fabric.transport(0), {});
  Record record;
  record.values[0] = NAN;
  EXPECT_TRUE(std::isnan(SumOf(agreement.Exchange(record), 0)));
  EXPECT_EQ(agreement.sent_bytes(), 0);
}

}  // namespace
}  // namespace thinwire::comm
