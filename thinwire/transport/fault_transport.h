// Hurts one message of another transport on purpose, for tests of what happens then. A test that
// sweeps `message` from 1 until posted() stays below it has tried every place.
#pragma once

#include <atomic>
#include <chrono>
#include <vector>

#include "thinwire/transport/transport.h"

namespace thinwire::transport {

struct Fault {
  enum class Kind : uint8_t {
    kFailOnce,  // the call throws PeerError, later ones work
    kFail,      // it and every later call throw PeerError
    kStall,     // the message never completes: as if the peer had stopped, until an Abort
    kDelay,     // the call returns later, as that of a rank that was not scheduled
    kDamage,    // it, or the next one that is a send, arrives with a bit of its last byte flipped
  };
  Kind kind = Kind::kFail;
  int64_t message = 1;  // which of the sends and receives together, counted from 1
  std::chrono::milliseconds delay{0};
};

class FaultTransport final : public Transport {
 public:
  // The highest tag is taken: a stalled message is a receive that nobody answers, so that whatever
  // ends a hang of `inner` ends it as well.
  static constexpr Tag kStallTag = (Tag{1} << 31) - 1;

  // `inner` outlives this.
  FaultTransport(Transport& inner, Fault fault) : inner_(inner), fault_(fault) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Token Send(const ExecContext& context, int peer, Tag tag,
             std::span<const std::byte> data) override;
  Token Recv(const ExecContext& context, int peer, Tag tag, std::span<std::byte> data) override;
  void Abort(std::string_view reason) noexcept override { inner_.Abort(reason); }

  // Sends and receives so far, refused ones included.
  int64_t posted() const { return posted_.load(std::memory_order_relaxed); }

 private:
  // Applies the fault to the message that is next; true when it must stall or be damaged.
  bool Next(int peer, Tag tag, std::string_view direction);
  Token Stall(const ExecContext& context, int peer);

  Transport& inner_;
  const Fault fault_;
  std::atomic<int64_t> posted_{0};
  std::byte stalled_{};       // there can be only one
  std::atomic_flag damaged_;  // one was
  std::vector<std::byte> damaged_data_{};
};

}  // namespace thinwire::transport
