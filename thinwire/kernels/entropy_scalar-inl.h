// Only for entropy_isa.cc: see entropy_lane-inl.h.
#pragma once

#include "thinwire/kernels/entropy_lane-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

struct States {
  uint32_t lanes[kEntropyStates];
};

THINWIRE_INLINE States LoadStates(const uint32_t* lanes) {
  States states;
  __builtin_memcpy(states.lanes, lanes, sizeof(states.lanes));
  return states;
}
THINWIRE_INLINE void StoreStates(const States& states, uint32_t* lanes) {
  __builtin_memcpy(lanes, states.lanes, sizeof(states.lanes));
}

THINWIRE_INLINE void EncodeGroup(const uint32_t* encoder, const uint8_t* in, States& states,
                                 std::byte*& out) {
  for (int64_t lane = 0; lane < kEntropyStates; ++lane) {
    EncodeOne(encoder[in[lane]], states.lanes[lane], out);
  }
}

THINWIRE_INLINE bool DecodeGroup(const uint32_t* decoder, const std::byte* begin, States& states,
                                 const std::byte*& at, uint8_t* out) {
  for (int64_t lane = kEntropyStates - 1; lane >= 0; --lane) {
    if (!DecodeOne(decoder, begin, states.lanes[lane], at, out + lane)) return false;
  }
  return true;
}

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA
