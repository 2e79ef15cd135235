#include "thinwire/transport/counting_transport.h"

namespace thinwire::transport {

CountingTransport::CountingTransport(Transport& inner)
    : inner_(inner),
      sent_(static_cast<size_t>(inner.size())),
      received_(static_cast<size_t>(inner.size())) {}

Token CountingTransport::Send(const ExecContext& context, int peer, Tag tag,
                              std::span<const std::byte> data) {
  Token token = inner_.Send(context, peer, tag, data);
  Count(sent_, peer, data.size());
  return token;
}

Token CountingTransport::Recv(const ExecContext& context, int peer, Tag tag,
                              std::span<std::byte> data) {
  Token token = inner_.Recv(context, peer, tag, data);
  Count(received_, peer, data.size());
  return token;
}

void CountingTransport::Count(Counters& counters, int peer, size_t bytes) {
  Counter& counter = counters.at(static_cast<size_t>(peer));
  counter.messages.fetch_add(1, std::memory_order_relaxed);
  counter.bytes.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

MessageCount CountingTransport::Read(const Counters& counters, int peer) {
  const Counter& counter = counters.at(static_cast<size_t>(peer));
  return {counter.messages.load(std::memory_order_relaxed),
          counter.bytes.load(std::memory_order_relaxed)};
}

MessageCount CountingTransport::Sum(const Counters& counters) {
  MessageCount sum;
  for (size_t peer = 0; peer < counters.size(); ++peer) {
    const MessageCount count = Read(counters, static_cast<int>(peer));
    sum.messages += count.messages;
    sum.bytes += count.bytes;
  }
  return sum;
}

}  // namespace thinwire::transport
