// Text that goes round in circles, which a model writes when it has lost the thread.
#pragma once

#include <cstdint>
#include <span>

namespace thinwire::speech {

// Whether the last 32 tokens are so few different ones that their entropy is below 2.4 nats (as
// whisper.cpp asks), or the end is three times the same 8 tokens or more.
bool RepeatsItself(std::span<const int32_t> tokens);

}  // namespace thinwire::speech
