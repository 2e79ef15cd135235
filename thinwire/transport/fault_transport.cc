#include "thinwire/transport/fault_transport.h"

#include <thread>

#include "thinwire/base/error.h"

namespace thinwire::transport {

bool FaultTransport::Next(int peer, Tag tag, std::string_view direction) {
  const int64_t message = posted_.fetch_add(1, std::memory_order_relaxed) + 1;
  const bool hit = message == fault_.message;
  switch (fault_.kind) {
    case Fault::Kind::kFailOnce:
    case Fault::Kind::kFail:
      if (hit || (fault_.kind == Fault::Kind::kFail && message > fault_.message)) {
        throw PeerError(StrCat("rank ", rank(), ": injected fault in message ", message, " ",
                               direction, " rank ", peer, " under tag ", tag));
      }
      return false;
    case Fault::Kind::kStall:
      return hit;
    case Fault::Kind::kDelay:
      if (hit) std::this_thread::sleep_for(fault_.delay);
      return false;
    case Fault::Kind::kDamage:
      return message >= fault_.message;
  }
  return false;
}

Token FaultTransport::Stall(const ExecContext& context, int peer) {
  return inner_.Recv(context, peer, kStallTag, std::span(&stalled_, 1));
}

Token FaultTransport::Send(const ExecContext& context, int peer, Tag tag,
                           std::span<const std::byte> data) {
  const bool hit = Next(peer, tag, "to");
  if (hit && fault_.kind == Fault::Kind::kStall) return Stall(context, peer);
  if (hit && !damaged_.test_and_set()) {
    damaged_data_.assign(data.begin(), data.end());
    damaged_data_.back() ^= std::byte{1};
    data = damaged_data_;
  }
  return inner_.Send(context, peer, tag, data);
}

Token FaultTransport::Recv(const ExecContext& context, int peer, Tag tag,
                           std::span<std::byte> data) {
  const bool hit = Next(peer, tag, "from");
  if (hit && fault_.kind == Fault::Kind::kStall) return Stall(context, peer);
  return inner_.Recv(context, peer, tag, data);
}

}  // namespace thinwire::transport
