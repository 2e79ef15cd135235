#include "thinwire/torch/c10d_transport.h"

#include <ATen/ops/from_blob.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/torch/short_reason.h"

namespace thinwire::adapter {
namespace {

// Deadlines are the engine's business (no progress, no heartbeat), and it ends a wait with Abort();
// c10d's own would end a wait that is slow but alive.
constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

}  // namespace

class C10dTransport::Message final : public transport::Completion {
 public:
  explicit Message(C10dTransport* owner) : owner_(owner) {}

  void Wait() override {
    if (waited_) return;
    bool completed = false;
    try {
      completed = work_->wait(kForever);
    } catch (const std::exception& error) {
      owner_->ThrowLost(peer_, error);
    }
    owner_->ThrowIfAborted();
    THINWIRE_CHECK(completed, "rank ", owner_->rank_, ", peer ", peer_);
    waited_ = true;
  }
  void Release() noexcept override { owner_->Recycle(*this); }

 private:
  friend class C10dTransport;

  C10dTransport* const owner_;
  c10::intrusive_ptr<c10d::Work> work_;  // null in the pool and until the backend has answered
  int peer_ = 0;
  bool waited_ = false;  // Gloo's wait consumes the completion: a second one would block
  Message* next_ = nullptr;
  Message* previous_ = nullptr;
};

C10dTransport::C10dTransport(c10::intrusive_ptr<c10d::Backend> backend, int rank, int size)
    : backend_(std::move(backend)), rank_(rank), size_(size) {}

C10dTransport::~C10dTransport() = default;

transport::Token C10dTransport::Send(const ExecContext&, int peer, transport::Tag tag,
                                     std::span<const std::byte> data) {
  // Only ever read: a send's bytes go to the socket.
  return Post(Side::kSend, peer, tag, const_cast<std::byte*>(data.data()), data.size());
}

transport::Token C10dTransport::Recv(const ExecContext&, int peer, transport::Tag tag,
                                     std::span<std::byte> data) {
  return Post(Side::kRecv, peer, tag, data.data(), data.size());
}

transport::Token C10dTransport::Post(Side side, int peer, transport::Tag tag, std::byte* data,
                                     size_t bytes) {
  THINWIRE_CHECK(peer >= 0 && peer < size_ && peer != rank_, "rank ", rank_, ", peer ", peer);
  THINWIRE_CHECK(bytes > 0, "rank ", rank_, ", peer ", peer, ", tag ", tag);
  THINWIRE_CHECK(tag < (transport::Tag{1} << 31), tag);
  Message& message = TakeMessage();
  transport::Token token(&message);
  message.peer_ = peer;
  message.waited_ = false;
  std::vector<at::Tensor> tensors{at::from_blob(data, {static_cast<int64_t>(bytes)}, at::kByte)};
  c10::intrusive_ptr<c10d::Work> work;
  try {
    std::lock_guard posting(post_mutex_);
    work = side == Side::kSend ? backend_->send(tensors, peer, static_cast<int>(tag))
                               : backend_->recv(tensors, peer, static_cast<int>(tag));
  } catch (const std::exception& error) {
    ThrowLost(peer, error);
  }
  std::lock_guard lock(mutex_);
  message.work_ = std::move(work);
  // An Abort() meanwhile has not seen this work.
  if (aborted_) message.work_->abort();
  return token;
}

C10dTransport::Message& C10dTransport::TakeMessage() {
  std::lock_guard lock(mutex_);
  if (aborted_) throw PeerError(*aborted_);
  if (free_ == nullptr) free_ = &messages_.emplace_front(this);
  Message& message = *std::exchange(free_, free_->next_);
  message.previous_ = nullptr;
  message.next_ = outstanding_;
  if (outstanding_ != nullptr) outstanding_->previous_ = &message;
  outstanding_ = &message;
  return message;
}

void C10dTransport::Recycle(Message& message) noexcept {
  // Withdraws a message that is still pending, and waits while its bytes are being moved. Gloo's
  // thread may hold them, so never under the lock.
  c10::intrusive_ptr<c10d::Work> work;
  {
    std::lock_guard lock(mutex_);
    work = std::move(message.work_);
    (message.previous_ ? message.previous_->next_ : outstanding_) = message.next_;
    if (message.next_ != nullptr) message.next_->previous_ = message.previous_;
  }
  work.reset();
  std::lock_guard lock(mutex_);
  message.next_ = std::exchange(free_, &message);
}

void C10dTransport::Abort(std::string_view reason) noexcept {
  std::lock_guard lock(mutex_);
  if (aborted_) return;
  aborted_.emplace(reason);
  for (Message* message = outstanding_; message != nullptr; message = message->next_) {
    if (message->work_) message->work_->abort();
  }
}

bool C10dTransport::aborted() const {
  std::lock_guard lock(mutex_);
  return aborted_.has_value();
}

void C10dTransport::ThrowIfAborted() const {
  std::lock_guard lock(mutex_);
  if (aborted_) throw PeerError(*aborted_);
}

void C10dTransport::ThrowLost(int peer, const std::exception& error) const {
  ThrowIfAborted();
  throw PeerError(
      StrCat("rank ", rank_, " lost contact with rank ", peer, ": ", ShortReason(error)));
}

}  // namespace thinwire::adapter
