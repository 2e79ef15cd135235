// A number format of one hop: turns the elements of a piece of a flat into the bytes of a message
// and back. Codecs are stateless and shared between threads.
//
// A piece is described by its runs: the lengths, in elements, of the consecutive stretches of
// different parameters in it. Blocks of a format restart at each run; raw formats ignore them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "thinwire/base/context.h"
#include "thinwire/base/dtype.h"

namespace thinwire::codec {

using Runs = std::span<const int64_t>;

// One summand of DecodeSum: either the bytes of a message, or this rank's own elements as they are.
struct Term {
  std::span<const std::byte> encoded;  // used when `own.data` is null
  ConstArray own;
};

class MessageCoder;

class Codec {
 public:
  virtual ~Codec() = default;

  virtual std::string_view name() const = 0;

  // Exact size in bytes of a piece with these runs; 0 for an empty piece.
  virtual int64_t EncodedBytes(Runs runs) const = 0;

  // `in` has sum(runs) elements of any dtype, `out` EncodedBytes(runs) bytes.
  virtual void Encode(const ExecContext& context, ConstArray in, Runs runs,
                      std::span<std::byte> out) const = 0;

  // The inverse, rounded to out.dtype. Throws PeerError on a malformed message.
  virtual void Decode(const ExecContext& context, std::span<const std::byte> in, Runs runs,
                      Array out) const = 0;

  // sum += what `in` decodes to, an addition in fp32, then rounded to sum.dtype. Throws as Decode.
  virtual void DecodeAdd(const ExecContext& context, std::span<const std::byte> in, Runs runs,
                         Array sum) const = 0;
  // rest -= what `in` decodes to, in fp32. Throws as Decode.
  virtual void DecodeSubtract(const ExecContext& context, std::span<const std::byte> in, Runs runs,
                              std::span<float> rest) const = 0;

  // out = (accumulate ? out : 0) + term 0 + term 1 + ... in that order, each addition rounded to
  // fp32: the sum has the same bits on every instruction set. All terms have sum(runs) elements.
  // The first addition to "0" is a copy, so that -0 and NaN payloads survive.
  virtual void DecodeSum(const ExecContext& context, std::span<const Term> terms, Runs runs,
                         bool accumulate, std::span<float> out) const = 0;

  // What makes messages shorter on their way (codec/message_coder.h); null for most codecs. All
  // that is said above is about messages before and after that.
  virtual const MessageCoder* coder() const { return nullptr; }
};

// The codec that sends elements as they are, in `dtype`. Lives as long as the program.
const Codec& Raw(DType dtype);

}  // namespace thinwire::codec
