// Two transports as one: messages to near peers go over one, all others over the other.
#pragma once

#include <vector>

#include "thinwire/transport/transport.h"

namespace thinwire::transport {

class RoutedTransport final : public Transport {
 public:
  // Both are of the same rank and size, and outlive this; `near_peers` by rank, the same for both
  // ranks of every pair.
  RoutedTransport(Transport& near, std::vector<bool> near_peers, Transport& far);

  int rank() const override { return far_.rank(); }
  int size() const override { return far_.size(); }
  Token Send(const ExecContext& context, int peer, Tag tag,
             std::span<const std::byte> data) override;
  Token Recv(const ExecContext& context, int peer, Tag tag, std::span<std::byte> data) override;
  void Abort(std::string_view reason) noexcept override;

 private:
  Transport& To(int peer);

  Transport& near_;
  const std::vector<bool> near_peers_;
  Transport& far_;
};

}  // namespace thinwire::transport
