// A c10d backend's point-to-point messages as a Transport. Used with Gloo: messages are byte
// tensors over the caller's memory, sent without a copy when the receive is posted already.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <forward_list>
#include <mutex>
#include <optional>

#include "thinwire/transport/transport.h"

namespace c10d {
class Backend;
}

namespace thinwire::adapter {

// Gloo does not compare the sizes of the two sides of a message: see comm/agreement.h.
class C10dTransport final : public transport::Transport {
 public:
  // `backend` has this rank and size.
  C10dTransport(c10::intrusive_ptr<c10d::Backend> backend, int rank, int size);
  // All tokens must be gone.
  ~C10dTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  transport::Token Send(const ExecContext& context, int peer, transport::Tag tag,
                        std::span<const std::byte> data) override;
  transport::Token Recv(const ExecContext& context, int peer, transport::Tag tag,
                        std::span<std::byte> data) override;
  void Abort(std::string_view reason) noexcept override;

  bool aborted() const;

 private:
  class Message;
  enum class Side : uint8_t { kSend, kRecv };

  transport::Token Post(Side side, int peer, transport::Tag tag, std::byte* data, size_t bytes);
  Message& TakeMessage();
  void Recycle(Message& message) noexcept;
  void ThrowIfAborted() const;
  [[noreturn]] void ThrowLost(int peer, const std::exception& error) const;

  const c10::intrusive_ptr<c10d::Backend> backend_;
  const int rank_, size_;
  std::mutex post_mutex_;  // c10d backends count their calls without a lock

  mutable std::mutex mutex_;  // guards what follows
  std::optional<std::string> aborted_;
  std::forward_list<Message> messages_;  // all there are, never moved
  Message* free_ = nullptr;
  Message* outstanding_ = nullptr;  // doubly linked, so that Abort() finds every waiter
};

}  // namespace thinwire::adapter
