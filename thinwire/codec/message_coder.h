// Entropy coding of a message of quantized blocks (codec/block.h) on its way: the message that
// arrives is the same to the bit, what travels in between is shorter and of a size that depends on
// the values.
//
//   the codes of all runs as kernels/entropy.h has them, then their scales as scale_coder.h
#pragma once

#include "thinwire/codec/codec.h"
#include "thinwire/kernels/quantize.h"

namespace thinwire::codec {

class MessageCoder {
 public:
  explicit MessageCoder(const kernels::BlockFormat& format) : format_(format) {}

  // What Code needs at most: some bytes more than the message, whatever is in it.
  int64_t MostBytes(Runs runs) const;

  // `message` is what Codec::Encode made of a piece with these runs; `out` has MostBytes of room.
  // Returns how many are used.
  int64_t Code(const ExecContext& context, std::span<const std::byte> message, Runs runs,
               std::span<std::byte> out) const;

  // The inverse: fills `message` from the first bytes of `in` and returns how many they are. Throws
  // PeerError when they are no code of such a message.
  int64_t Expand(const ExecContext& context, std::span<const std::byte> in, Runs runs,
                 std::span<std::byte> message) const;

 private:
  kernels::BlockFormat format_;
};

}  // namespace thinwire::codec
