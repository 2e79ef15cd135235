// One exchange of one hop: every member of a group sends one message to every other member.
//
//   gather   each sends its own piece to all and ends with everybody's piece. A member may have
//            several pieces, coded by others before: their codes are then sent as they are
//   reduce   each sends every other member that member's piece and ends with the sum of its own,
//            added in member order, its own values in their place among the others
//
// An exchange runs in three steps, so that several may be in flight: post the receives (early: a
// transport with rendezvous then never waits for them), encode and send, complete.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/comm/exchange_shape.h"
#include "thinwire/comm/message_sizes.h"
#include "thinwire/transport/transport.h"

namespace thinwire::comm {

// Memory and tokens of one exchange in flight; reused, allocates only when made.
class MessageSlot {
 public:
  MessageSlot(int64_t room, int members);

  // What the last exchange gave to the transport.
  int64_t sent_bytes() const { return sent_bytes_; }
  // When all messages of the last exchange were here and sent.
  std::chrono::steady_clock::time_point arrived() const { return arrived_; }

 private:
  friend class Exchange;
  struct Message {
    std::span<std::byte> bytes;  // all of it; of a coded one there is room for the most it can have
    int64_t first_bytes = 0;     // of its first part, which is the whole message unless it is coded
    int64_t rest_bytes = 0;      // of its second part, where it is coded
    int64_t coded_bytes = 0;     // of a coded one that came, behind its headers
    transport::Token token;
    transport::Token rest_token;
  };
  AlignedBuffer room_;
  std::vector<Message> sends_;     // by member; a gather encodes into sends_[me] only
  std::vector<Message> receives_;  // by member
  // Where messages are coded, payloads before that: this rank's own, until it is decoded, and one
  // that came.
  std::span<std::byte> own_plain_, plain_;
  int64_t sent_bytes_ = 0;
  std::chrono::steady_clock::time_point arrived_{};
};

// Stamps and checks of the messages of one exchange.
struct Stamp {
  transport::Tag tag = 0;
  uint64_t fingerprint = 0;
  uint64_t next = 0;
  MessageSizes* sizes = nullptr;  // of this exchange, where its messages are coded
};

// What a hop has done so far; read by other threads.
struct HopTraffic {
  std::atomic<int64_t> bytes{0};     // sent
  std::atomic<int64_t> messages{0};  // sent
  std::atomic<int64_t> exchanges{0};
  std::atomic<int64_t> nanoseconds{0};
};

// The three steps. The same shape, slot and stamp go to each; one object serves one rank.
class Exchange {
 public:
  // With `checksum` messages carry the CRC-32C of their payload, on all ranks or on none: a
  // receiver that has it on refuses a message without one, since the flag that says so is not
  // covered by it and may itself have been damaged. The engine and the trainer agree on it before
  // they begin.
  Exchange(transport::Transport& transport, ExecContext context, bool checksum = false)
      : transport_(transport), context_(context), checksum_(checksum) {}

  const ExecContext& context() const { return context_; }

  void PostReceives(const ExchangeShape& shape, const Stamp& stamp, MessageSlot& slot) const;
  // Gather: `source` holds this member's piece, or its codes. Reduce: it holds all pieces.
  void Send(const ExchangeShape& shape, const Stamp& stamp, const Operand& source,
            MessageSlot& slot, HopTraffic& traffic) const;
  // Waits for all messages, then decodes them. After a gather `target` (which holds all pieces) has
  // everybody's piece, this rank's own decoded from what it sent; or, when the target is coded, the
  // payloads of all members one after the other as PayloadOffsets() of their pieces has them; or,
  // when it adds, matrices are what it had plus everybody's differences.
  // Throws PeerError when a message is not the one that was due, or was damaged where a checksum
  // shows it.
  void CompleteGather(const ExchangeShape& shape, const Stamp& stamp, const Operand& source,
                      const Operand& target, MessageSlot& slot) const;
  // target (fp32, holds this member's piece) = (accumulate ? target : 0) + the sum over members.
  void CompleteReduce(const ExchangeShape& shape, const Stamp& stamp, const Image& source,
                      bool accumulate, const Image& target, MessageSlot& slot) const;

 private:
  void Encode(const ExchangeShape& shape, const Stamp& stamp, const Operand& source, int member,
              MessageSlot& slot) const;
  void EncodeValues(const ExchangeShape& shape, const Operand& source, int member,
                    std::span<std::byte> payload) const;
  void EncodeCoded(const ExchangeShape& shape, const Stamp& stamp, const Operand& source,
                   int member, MessageSlot& slot) const;
  void WriteHeader(Header header, std::span<std::byte> message) const;
  void Await(const ExchangeShape& shape, const Stamp& stamp, MessageSlot& slot) const;
  void AwaitRest(const ExchangeShape& shape, const Stamp& stamp, int member, const Header& header,
                 MessageSlot& slot) const;
  Header ReadHeader(const ExchangeShape& shape, const Stamp& stamp, int member,
                    std::span<const std::byte> message) const;
  void CheckPayload(const Header& header, int rank, std::span<const std::byte> payload) const;
  std::span<const std::byte> PayloadOf(const ExchangeShape& shape, int member,
                                       MessageSlot& slot) const;
  void Gathered(const ExchangeShape& shape, int member, std::span<const std::byte> payload,
                const Operand& target) const;

  transport::Transport& transport_;
  ExecContext context_;
  bool checksum_;
};

}  // namespace thinwire::comm
