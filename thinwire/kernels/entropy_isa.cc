#include "thinwire/kernels/entropy_isa.h"

#if defined(__AVX512F__)
#include "thinwire/kernels/entropy_avx512-inl.h"
#elif defined(__AVX2__)
#include "thinwire/kernels/entropy_avx2-inl.h"
#else
#include "thinwire/kernels/entropy_scalar-inl.h"
#endif

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

constexpr int64_t kGroupBytes = 2 * kEntropyStates;  // the words of 32 symbols, at most

}  // namespace

uint32_t CostOfSymbols(const uint32_t* histogram, const uint16_t* costs) {
  uint32_t sum = 0;
  for (int i = 0; i < kSymbols; ++i) sum += histogram[i] * costs[i];
  return sum;
}

int64_t EncodeSymbols(const uint32_t* encoder, const uint8_t* in, int64_t size, std::byte* out,
                      int64_t room) {
  std::byte* at = out;
  const int64_t last = room - kGroupBytes - kStateBytes;
  uint32_t lanes[kEntropyStates];
  for (uint32_t& state : lanes) state = kLeastState;
  States states = LoadStates(lanes);
  int64_t i = 0;
  for (; i + kEntropyStates <= size; i += kEntropyStates) {
    if (at - out > last) return -1;
    EncodeGroup(encoder, in + i, states, at);
  }
  StoreStates(states, lanes);
  if (at - out > last) return -1;
  for (int64_t lane = 0; i < size; ++i, ++lane) EncodeOne(encoder[in[i]], lanes[lane], at);
  for (const uint32_t state : lanes) {
    *reinterpret_cast<Word32*>(at) = state;
    at += 4;
  }
  return at - out;
}

bool DecodeSymbols(const uint32_t* decoder, const std::byte* in, int64_t bytes, uint8_t* out,
                   int64_t size) {
  if (bytes < kStateBytes || bytes % 2 != 0) return false;
  const std::byte* at = in + bytes - kStateBytes;
  uint32_t lanes[kEntropyStates];
  for (int64_t lane = 0; lane < kEntropyStates; ++lane) {
    lanes[lane] = reinterpret_cast<const Word32*>(at)[lane];
  }
  int64_t i = size;
  for (int64_t lane = size % kEntropyStates - 1; lane >= 0; --lane) {
    if (!DecodeOne(decoder, in, lanes[lane], at, out + --i)) return false;
  }
  States states = LoadStates(lanes);
  while (i > 0) {
    i -= kEntropyStates;
    if (!DecodeGroup(decoder, in, states, at, out + i)) return false;
  }
  StoreStates(states, lanes);
  bool ended = at == in;
  for (const uint32_t state : lanes) ended = ended && state == kLeastState;
  return ended;
}

}  // namespace thinwire::kernels::THINWIRE_ISA
