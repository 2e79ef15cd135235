// Bytes between ranks. Implementations: ranks as threads of one process (thread_transport.h),
// c10d process groups (torch/c10d_transport.h); wrappers that count or inject faults.
//
// Messages are matched by (sender, receiver, tag), never by order, so two ranks may post the same
// messages in different orders. Sender and receiver must agree on the size of a message before
// it is posted; a mismatch is an error where the implementation can see it, and undefined where it
// cannot (Gloo), which is why comm/agreement.h exists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/base/context.h"

namespace thinwire::transport {

// Identifies one message among those in flight between two ranks. Below 2^31.
using Tag = uint32_t;

// A message on its way. Owned by the transport, which recycles it.
class Completion {
 public:
  // Returns when the message has been sent (its bytes may be overwritten) or received (they may be
  // read). Throws PeerError when the peer is lost or the transport was aborted.
  virtual void Wait() = 0;
  // Hands the object back. Called once, also for a message that was never waited for.
  virtual void Release() noexcept = 0;

 protected:
  ~Completion() = default;
};

struct ReleaseCompletion {
  void operator()(Completion* completion) const noexcept { completion->Release(); }
};

// The completion token of one message: move-only, released when it goes.
using Token = std::unique_ptr<Completion, ReleaseCompletion>;

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Starts a message of data.size() > 0 bytes to or from `peer` (another rank). The bytes must stay
  // alive and untouched until the token's Wait() returns. Thread-safe. Throws PeerError as Wait().
  virtual Token Send(const ExecContext& context, int peer, Tag tag,
                     std::span<const std::byte> data) = 0;
  virtual Token Recv(const ExecContext& context, int peer, Tag tag, std::span<std::byte> data) = 0;

  // Makes every pending and every later call on this rank throw PeerError(reason). The first
  // reason stays. Peers learn of it only by what they see of this rank afterwards.
  virtual void Abort(std::string_view reason) noexcept = 0;
};

}  // namespace thinwire::transport
