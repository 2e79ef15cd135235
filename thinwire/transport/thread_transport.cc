#include "thinwire/transport/thread_transport.h"

#include <condition_variable>
#include <cstring>
#include <forward_list>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"

namespace thinwire::transport {
namespace {

enum class Side : uint8_t { kSend, kRecv };

enum class State : uint8_t {
  kFree,     // in the pool
  kPosted,   // in the queue of its pair, waits for the other side
  kCopying,  // taken from the queue; its bytes are being read or written by the other side's thread
  kFinished,  // done, or failed when `error` is set; its bytes are the caller's again
};

}  // namespace

class ThreadFabric::Core {
 public:
  explicit Core(int size);
  ~Core();

  Rank& rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  int size() const { return size_; }

  Token Post(Side side, int rank, int peer, Tag tag, std::byte* data, size_t bytes);
  void Abort(int rank, std::string_view reason) noexcept;

 private:
  struct Message;
  // Messages posted by one side of one (sender, receiver) pair, oldest first.
  struct Queue {
    Message* first = nullptr;
    Message* last = nullptr;
  };

  Queue& QueueOf(Side side, int sender, int receiver) {
    return queues_[static_cast<size_t>(((side == Side::kSend ? 0 : size_) + sender) * size_ +
                                       receiver)];
  }
  Queue& QueueOf(const Message& message);
  void Append(Message& message);
  void Remove(Message& message);
  Message* TakeMatch(const Message& message);
  void ThrowIfAborted(int rank, int peer) const;
  void FailQueue(Queue& queue, int aborted);
  void Wait(Message& message);
  void Release(Message& message) noexcept;

  const int size_;
  std::mutex mutex_;                                 // guards everything below and every message
  std::vector<std::optional<std::string>> aborted_;  // the reason, by rank
  std::vector<Queue> queues_;                        // [side][sender][receiver]
  std::forward_list<Message> messages_;              // all there are, never moved
  Message* free_ = nullptr;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

struct ThreadFabric::Core::Message final : public Completion {
  explicit Message(Core* the_core) : core(the_core) {}
  void Wait() override { core->Wait(*this); }
  void Release() noexcept override { core->Release(*this); }

  int sender() const { return side == Side::kSend ? rank : peer; }
  int receiver() const { return side == Side::kSend ? peer : rank; }
  void Finish() {
    state = State::kFinished;
    finished.notify_all();
  }

  Core* const core;
  State state = State::kFree;
  Side side = Side::kSend;
  int rank = 0, peer = 0;
  Tag tag = 0;
  std::byte* data = nullptr;
  size_t bytes = 0;
  std::string error;
  std::condition_variable finished;
  Message* next = nullptr;  // in its queue or in the pool
  Message* previous = nullptr;
};

class ThreadFabric::Rank final : public Transport {
 public:
  Rank(Core* core, int rank) : core_(core), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return core_->size(); }
  Token Send(const ExecContext&, int peer, Tag tag, std::span<const std::byte> data) override {
    // Only ever read: a send's bytes are the source of the copy.
    return core_->Post(Side::kSend, rank_, peer, tag, const_cast<std::byte*>(data.data()),
                       data.size());
  }
  Token Recv(const ExecContext&, int peer, Tag tag, std::span<std::byte> data) override {
    return core_->Post(Side::kRecv, rank_, peer, tag, data.data(), data.size());
  }
  void Abort(std::string_view reason) noexcept override { core_->Abort(rank_, reason); }

 private:
  Core* const core_;
  const int rank_;
};

ThreadFabric::Core::Core(int size) : size_(size) {
  THINWIRE_CHECK(size >= 1, size);
  const auto ranks = static_cast<size_t>(size);
  aborted_.resize(ranks);
  queues_.resize(2 * ranks * ranks);
  for (int r = 0; r < size; ++r) ranks_.push_back(std::make_unique<Rank>(this, r));
}

ThreadFabric::Core::~Core() = default;

ThreadFabric::Core::Queue& ThreadFabric::Core::QueueOf(const Message& message) {
  return QueueOf(message.side, message.sender(), message.receiver());
}

void ThreadFabric::Core::Append(Message& message) {
  Queue& queue = QueueOf(message);
  message.state = State::kPosted;
  message.next = nullptr;
  message.previous = queue.last;
  (queue.last ? queue.last->next : queue.first) = &message;
  queue.last = &message;
}

void ThreadFabric::Core::Remove(Message& message) {
  Queue& queue = QueueOf(message);
  (message.previous ? message.previous->next : queue.first) = message.next;
  (message.next ? message.next->previous : queue.last) = message.previous;
}

ThreadFabric::Core::Message* ThreadFabric::Core::TakeMatch(const Message& message) {
  const Side other = message.side == Side::kSend ? Side::kRecv : Side::kSend;
  Message* match = QueueOf(other, message.sender(), message.receiver()).first;
  while (match != nullptr && match->tag != message.tag) match = match->next;
  if (match != nullptr) Remove(*match);
  return match;
}

void ThreadFabric::Core::ThrowIfAborted(int rank, int peer) const {
  const auto& own = aborted_[static_cast<size_t>(rank)];
  if (own) throw PeerError(*own);
  const auto& others = aborted_[static_cast<size_t>(peer)];
  if (others) throw PeerError(StrCat("rank ", peer, " aborted: ", *others));
}

Token ThreadFabric::Core::Post(Side side, int rank, int peer, Tag tag, std::byte* data,
                               size_t bytes) {
  THINWIRE_CHECK(peer >= 0 && peer < size_ && peer != rank, "rank ", rank, ", peer ", peer);
  THINWIRE_CHECK(bytes > 0, "rank ", rank, ", peer ", peer, ", tag ", tag);
  THINWIRE_CHECK(tag < (Tag{1} << 31), tag);
  std::unique_lock lock(mutex_);
  ThrowIfAborted(rank, peer);
  if (free_ == nullptr) free_ = &messages_.emplace_front(this);
  Message& message = *std::exchange(free_, free_->next);
  message.side = side;
  message.rank = rank;
  message.peer = peer;
  message.tag = tag;
  message.data = data;
  message.bytes = bytes;
  message.error.clear();
  Message* match = TakeMatch(message);
  if (match == nullptr) {
    Append(message);
    return Token(&message);
  }
  const Message& source = side == Side::kSend ? message : *match;
  const Message& sink = side == Side::kSend ? *match : message;
  if (source.bytes == sink.bytes) {
    match->state = State::kCopying;
    lock.unlock();
    std::memcpy(sink.data, source.data, bytes);
    lock.lock();
  } else {
    message.error = StrCat("rank ", source.rank, " sends ", source.bytes, " bytes to rank ",
                           sink.rank, " under tag ", tag, ", which expects ", sink.bytes);
    match->error = message.error;
  }
  message.Finish();
  match->Finish();
  return Token(&message);
}

void ThreadFabric::Core::Wait(Message& message) {
  std::unique_lock lock(mutex_);
  message.finished.wait(lock, [&] { return message.state == State::kFinished; });
  if (!message.error.empty()) throw PeerError(message.error);
  const auto& own = aborted_[static_cast<size_t>(message.rank)];
  if (own) throw PeerError(*own);
}

void ThreadFabric::Core::Release(Message& message) noexcept {
  std::unique_lock lock(mutex_);
  if (message.state == State::kPosted) Remove(message);
  message.finished.wait(lock, [&] { return message.state != State::kCopying; });
  message.state = State::kFree;
  message.next = std::exchange(free_, &message);
}

void ThreadFabric::Core::FailQueue(Queue& queue, int aborted) {
  const std::string& reason = *aborted_[static_cast<size_t>(aborted)];
  while (queue.first != nullptr) {
    Message& message = *queue.first;
    Remove(message);
    message.error =
        message.rank == aborted ? reason : StrCat("rank ", aborted, " aborted: ", reason);
    message.Finish();
  }
}

void ThreadFabric::Core::Abort(int rank, std::string_view reason) noexcept {
  std::lock_guard lock(mutex_);
  auto& own = aborted_[static_cast<size_t>(rank)];
  if (own) return;
  own.emplace(reason);
  for (int other = 0; other < size_; ++other) {
    for (const Side side : {Side::kSend, Side::kRecv}) {
      FailQueue(QueueOf(side, rank, other), rank);
      FailQueue(QueueOf(side, other, rank), rank);
    }
  }
}

ThreadFabric::ThreadFabric(int size) : core_(std::make_unique<Core>(size)) {}
ThreadFabric::~ThreadFabric() = default;
int ThreadFabric::size() const { return core_->size(); }
Transport& ThreadFabric::transport(int rank) {
  THINWIRE_CHECK(rank >= 0 && rank < core_->size(), rank);
  return core_->rank(rank);
}

}  // namespace thinwire::transport
