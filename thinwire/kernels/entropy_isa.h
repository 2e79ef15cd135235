// The loops of entropy.h on the symbols of one segment.
#pragma once

#include "thinwire/kernels/entropy_tables.h"
#include "thinwire/kernels/per_isa.h"

namespace thinwire::kernels {

constexpr int64_t kEntropyStates = 32;
constexpr uint32_t kLeastState = 1u << 15;
constexpr int64_t kStateBytes = 4 * kEntropyStates;

THINWIRE_PER_ISA(
    // The sum over all symbols of how often one occurs times its cost, below 2^32.
    uint32_t CostOfSymbols(const uint32_t* histogram, const uint16_t* costs);

    // The size of the code, or -1 where it would not fit into `room` bytes with some to spare:
    // before each 32 symbols there must be room for their 32 words and the states. `encoder` has
    // a frequency for every symbol in `in`.
    int64_t EncodeSymbols(const uint32_t* encoder, const uint8_t* in, int64_t size, std::byte* out,
                          int64_t room);

    // Whether `in`, all `bytes` of it, is a code of `size` symbols; `out` is then these.
    bool DecodeSymbols(const uint32_t* decoder, const std::byte* in, int64_t bytes, uint8_t* out,
                       int64_t size);)

}  // namespace thinwire::kernels
