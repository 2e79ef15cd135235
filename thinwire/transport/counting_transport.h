// Counts what passes through another transport, by peer: what the plan predicted is checked
// against these numbers.
#pragma once

#include <atomic>
#include <vector>

#include "thinwire/transport/transport.h"

namespace thinwire::transport {

// Messages started, and their bytes.
struct MessageCount {
  int64_t messages = 0;
  int64_t bytes = 0;
  bool operator==(const MessageCount&) const = default;
};

class CountingTransport final : public Transport {
 public:
  // `inner` outlives this.
  explicit CountingTransport(Transport& inner);

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  // A message that `inner` refuses is not counted.
  Token Send(const ExecContext& context, int peer, Tag tag,
             std::span<const std::byte> data) override;
  Token Recv(const ExecContext& context, int peer, Tag tag, std::span<std::byte> data) override;
  void Abort(std::string_view reason) noexcept override { inner_.Abort(reason); }

  MessageCount sent_to(int peer) const { return Read(sent_, peer); }
  MessageCount received_from(int peer) const { return Read(received_, peer); }
  MessageCount sent() const { return Sum(sent_); }
  MessageCount received() const { return Sum(received_); }

 private:
  struct Counter {
    std::atomic<int64_t> messages{0};
    std::atomic<int64_t> bytes{0};
  };
  using Counters = std::vector<Counter>;  // by peer

  static void Count(Counters& counters, int peer, size_t bytes);
  static MessageCount Read(const Counters& counters, int peer);
  static MessageCount Sum(const Counters& counters);

  Transport& inner_;
  Counters sent_, received_;
};

}  // namespace thinwire::transport
