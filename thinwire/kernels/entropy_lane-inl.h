// Only for entropy_isa.cc: the steps of one state. What goes by 32 states is in
// entropy_<isa>-inl.h:
//
//   States                   the 32 states, in registers where there are vectors
//   LoadStates, StoreStates  from and to an array
//   EncodeGroup              EncodeOne for 32 symbols
//   DecodeGroup              DecodeOne for 32 symbols, the last one first
//
// The latter write and read up to 64 bytes beyond the words that they code: there are the states
// behind them.
#pragma once

#include "thinwire/kernels/elements-inl.h"
#include "thinwire/kernels/entropy_isa.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

constexpr uint32_t kSlotMask = (1u << kFrequencyBits) - 1;

// Writes a word that counts only where it is due: a branch on that is hard to foretell.
THINWIRE_INLINE void EncodeOne(uint32_t entry, uint32_t& state, std::byte*& out) {
  const uint32_t frequency = entry & 0xffffu;
  const bool full = state >= frequency << 19;
  *reinterpret_cast<Word16*>(out) = static_cast<uint16_t>(state);
  out += 2 * full;
  state >>= 16 * full;
  state = (state / frequency << kFrequencyBits) + (entry >> 16) + state % frequency;
}

// False when a word is needed and there is none before `at`, which has two bytes behind it.
THINWIRE_INLINE bool DecodeOne(const uint32_t* decoder, const std::byte* begin, uint32_t& state,
                               const std::byte*& at, uint8_t* out) {
  const uint32_t entry = decoder[state & kSlotMask];
  *out = static_cast<uint8_t>(entry);
  const uint32_t left = (entry >> 8 & 0xfffu) * (state >> kFrequencyBits) + (entry >> 20);
  const uint32_t empty = left < kLeastState;
  if (at - begin < 2) [[unlikely]] {
    if (at - begin < 2 * int64_t{empty}) return false;
  }
  at -= 2 * empty;
  const uint32_t filled = left << 16 | uint32_t{*reinterpret_cast<const Word16*>(at)};
  state = left ^ ((left ^ filled) & (0u - empty));
  return true;
}

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA
