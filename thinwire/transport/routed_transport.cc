#include "thinwire/transport/routed_transport.h"

#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::transport {

RoutedTransport::RoutedTransport(Transport& near, std::vector<bool> near_peers, Transport& far)
    : near_(near), near_peers_(std::move(near_peers)), far_(far) {
  THINWIRE_CHECK(near_.rank() == far_.rank() && near_.size() == far_.size() &&
                     static_cast<int>(near_peers_.size()) == far_.size(),
                 near_.size(), " and ", far_.size(), " ranks");
}

Transport& RoutedTransport::To(int peer) {
  THINWIRE_CHECK(peer >= 0 && peer < size(), peer);
  return near_peers_[static_cast<size_t>(peer)] ? near_ : far_;
}

Token RoutedTransport::Send(const ExecContext& context, int peer, Tag tag,
                            std::span<const std::byte> data) {
  return To(peer).Send(context, peer, tag, data);
}

Token RoutedTransport::Recv(const ExecContext& context, int peer, Tag tag,
                            std::span<std::byte> data) {
  return To(peer).Recv(context, peer, tag, data);
}

void RoutedTransport::Abort(std::string_view reason) noexcept {
  near_.Abort(reason);
  far_.Abort(reason);
}

}  // namespace thinwire::transport
