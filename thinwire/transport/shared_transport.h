// Ranks of one machine as processes: messages through memory that they share (shared_meeting.h).
//
// A message goes through a ring of its own, which the sender fills when it posts and the receiver
// empties when it posts; what does not fit moves on whenever a thread of either rank waits for any
// message of this transport. There is no thread of its own; who waits sleeps, and is woken when
// something changed for its rank.
//
//   sizes differ    PeerError on both sides, naming ranks, tag and both sizes
//   rank r aborts   its own calls throw PeerError(reason); what its peers have or post with it
//                   throws PeerError("rank r aborted: reason")
//   rank r dies     what its peers have or post with it throws PeerError("rank q lost contact with
//                   rank r: ..."), within about 50 ms
//   token dropped   a message that was not taken yet is withdrawn, one that is half way fails at
//                   the peer. No drop ever waits for a peer.
//
// Of several messages in flight with one (sender, receiver, tag), the oldest is matched first. Up
// to kSharedSlots messages per peer are in flight; more wait for one to end, in the order posted.
#pragma once

#include <memory>
#include <vector>

#include "thinwire/transport/shared_meeting.h"
#include "thinwire/transport/transport.h"

namespace thinwire::transport {

class SharedTransport final : public Transport {
 public:
  // `ranks`: of the machine's members, by member; `me`: this one's member. Peers are those that
  // both sides have met; the transport serves them alone.
  SharedTransport(int size, std::vector<int> ranks, int me, SharedSegment own,
                  std::vector<SharedPeer> peers);
  // All tokens must be gone.
  ~SharedTransport() override;

  int rank() const override;
  int size() const override;
  // To or from a peer that reaches() says.
  Token Send(const ExecContext& context, int peer, Tag tag,
             std::span<const std::byte> data) override;
  Token Recv(const ExecContext& context, int peer, Tag tag, std::span<std::byte> data) override;
  void Abort(std::string_view reason) noexcept override;

  bool reaches(int peer) const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace thinwire::transport
