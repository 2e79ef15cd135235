#include "thinwire/transport/shared_transport.h"

#include <chrono>
#include <forward_list>
#include <mutex>
#include <optional>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/transport/shared_link.h"

namespace thinwire::transport {
namespace {

using Clock = std::chrono::steady_clock;

// How long a thread that waits goes without asking whether its peers are still there.
constexpr std::chrono::milliseconds kCheckInterval{50};

}  // namespace

class SharedTransport::Core {
 public:
  Core(int world, std::vector<int> ranks, int member, SharedSegment segment,
       std::vector<SharedPeer> peers);

  Token Post(bool send, int peer, Tag tag, std::byte* data, size_t bytes);
  void Abort(std::string_view reason) noexcept;
  bool reaches(int peer) const {
    return peer >= 0 && peer < size && links_[static_cast<size_t>(peer)] != nullptr;
  }

  const int rank, size;

 private:
  struct Message;
  using State = SharedMessage::State;

  SharedLink& LinkTo(int peer) { return *links_[static_cast<size_t>(peer)]; }
  void Pump();
  void CheckPeers();
  void Wait(Message& message);
  void Release(Message& message) noexcept;

  const SharedSegment own_;
  std::mutex mutex_;                                // guards everything below and every message
  std::optional<std::string> aborted_;              // the reason
  std::vector<std::unique_ptr<SharedLink>> links_;  // by rank; null: none
  std::forward_list<Message> messages_;             // all there are, never moved
  Message* free_ = nullptr;
};

struct SharedTransport::Core::Message final : public Completion, public SharedMessage {
  explicit Message(Core* the_core) : core(the_core) {}
  void Wait() override { core->Wait(*this); }
  void Release() noexcept override { core->Release(*this); }

  Core* const core;
  Message* next_free = nullptr;
};

SharedTransport::Core::Core(int world, std::vector<int> ranks, int member, SharedSegment segment,
                            std::vector<SharedPeer> peers)
    : rank(ranks.at(static_cast<size_t>(member))), size(world), own_(std::move(segment)) {
  links_.resize(static_cast<size_t>(world));
  for (SharedPeer& peer : peers) {
    const int other = ranks.at(static_cast<size_t>(peer.member));
    links_.at(static_cast<size_t>(other)) =
        std::make_unique<SharedLink>(rank, other, member, own_, std::move(peer));
  }
}

Token SharedTransport::Core::Post(bool send, int peer, Tag tag, std::byte* data, size_t bytes) {
  THINWIRE_CHECK(reaches(peer), "rank ", rank, ", peer ", peer);
  THINWIRE_CHECK(bytes > 0, "rank ", rank, ", peer ", peer, ", tag ", tag);
  THINWIRE_CHECK(tag < (Tag{1} << 31), tag);
  std::lock_guard lock(mutex_);
  if (aborted_) throw PeerError(*aborted_);
  SharedLink& link = LinkTo(peer);
  if (const auto broken = link.Broken()) throw PeerError(*broken);
  if (free_ == nullptr) free_ = &messages_.emplace_front(this);
  Message& message = *std::exchange(free_, free_->next_free);
  message.state = State::kPosted;
  message.send = send;
  message.peer = peer;
  message.tag = tag;
  message.data = data;
  message.bytes = bytes;
  message.slot = -1;
  message.error.clear();
  link.Post(message);
  Token token(&message);
  // What is there already is received at once.
  if (link.Pump()) own_.Ring();
  return token;
}

void SharedTransport::Core::Pump() {
  bool changed = false;
  for (auto& link : links_) {
    if (!link || link->idle()) continue;
    if (const auto broken = link->Broken()) {
      link->FailAll(*broken);
      changed = true;
    } else {
      changed |= link->Pump();
    }
  }
  // Other threads of this rank may wait for what was done here.
  if (changed) own_.Ring();
}

void SharedTransport::Core::CheckPeers() {
  for (auto& link : links_) {
    if (!link || link->idle() || link->Alive()) continue;
    link->Pump();  // what it finished before it ended counts
  }
  Pump();
}

void SharedTransport::Core::Wait(Message& message) {
  std::unique_lock lock(mutex_);
  auto check = Clock::now() + kCheckInterval;
  while (message.state != State::kFinished) {
    const uint32_t bell = own_.Bell();
    Pump();
    if (message.state == State::kFinished) break;
    lock.unlock();
    own_.AwaitBell(bell, kCheckInterval);
    lock.lock();
    if (Clock::now() < check) continue;
    CheckPeers();
    check = Clock::now() + kCheckInterval;
  }
  if (!message.error.empty()) throw PeerError(message.error);
  if (aborted_) throw PeerError(*aborted_);
}

void SharedTransport::Core::Release(Message& message) noexcept {
  std::lock_guard lock(mutex_);
  if (message.state != State::kFinished) LinkTo(message.peer).Withdraw(message);
  message.next_free = std::exchange(free_, &message);
}

void SharedTransport::Core::Abort(std::string_view reason) noexcept {
  std::lock_guard lock(mutex_);
  if (aborted_) return;
  aborted_.emplace(reason);
  own_.ShowAborted(reason);
  for (auto& link : links_) {
    if (!link) continue;
    link->FailAll(*aborted_);
    link->Ring();
  }
  own_.Ring();
}

SharedTransport::SharedTransport(int size, std::vector<int> ranks, int me, SharedSegment own,
                                 std::vector<SharedPeer> peers)
    : core_(std::make_unique<Core>(size, std::move(ranks), me, std::move(own), std::move(peers))) {}
SharedTransport::~SharedTransport() = default;
int SharedTransport::rank() const { return core_->rank; }
int SharedTransport::size() const { return core_->size; }
bool SharedTransport::reaches(int peer) const { return core_->reaches(peer); }
void SharedTransport::Abort(std::string_view reason) noexcept { core_->Abort(reason); }

Token SharedTransport::Send(const ExecContext&, int peer, Tag tag,
                            std::span<const std::byte> data) {
  // Only ever read: a send's bytes are the source of the copy.
  return core_->Post(true, peer, tag, const_cast<std::byte*>(data.data()), data.size());
}

Token SharedTransport::Recv(const ExecContext&, int peer, Tag tag, std::span<std::byte> data) {
  return core_->Post(false, peer, tag, data.data(), data.size());
}

}  // namespace thinwire::transport
