#include "thinwire/transport/counting_transport.h"

#include <gtest/gtest.h>

#include "thinwire/base/error.h"
#include "thinwire/transport/thread_ranks.h"

namespace thinwire::transport {
namespace {

TEST(CountingTransport, CountsByPeerAndDirection) {
  RunRanks(3, [](Transport& inner) {
    CountingTransport transport(inner);
    const ExecContext context;
    const int me = transport.rank();
    // Rank r sends r + 1 messages of 10 (r + 1) bytes to rank r + 1.
    const int next = (me + 1) % 3, previous = (me + 2) % 3;
    std::vector<std::byte> out(static_cast<size_t>(10 * (me + 1)));
    std::vector<std::byte> in(static_cast<size_t>(10 * (previous + 1)));
    for (Tag tag = 0; tag <= 2; ++tag) {
      Token send, receive;
      if (tag <= static_cast<Tag>(me)) send = transport.Send(context, next, tag, out);
      if (tag <= static_cast<Tag>(previous)) receive = transport.Recv(context, previous, tag, in);
      if (send) send->Wait();
      if (receive) receive->Wait();
    }
    const auto expected = [](int sender) {
      return MessageCount{sender + 1, 10 * (sender + 1) * (sender + 1)};
    };
    EXPECT_EQ(transport.sent_to(next), expected(me));
    EXPECT_EQ(transport.sent_to(previous), MessageCount{});
    EXPECT_EQ(transport.received_from(previous), expected(previous));
    EXPECT_EQ(transport.received_from(next), MessageCount{});
    EXPECT_EQ(transport.sent(), expected(me));
    EXPECT_EQ(transport.received(), expected(previous));
  });
}

TEST(CountingTransport, RefusedMessagesDoNotCount) {
  ThreadFabric fabric(2);
  CountingTransport transport(fabric.transport(0));
  transport.Abort("test");
  std::vector<std::byte> data(1);
  EXPECT_THROW(transport.Send({}, 1, 0, data), PeerError);
  EXPECT_EQ(transport.sent(), MessageCount{});
}

}  // namespace
}  // namespace thinwire::transport
