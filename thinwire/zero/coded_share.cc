#include "thinwire/zero/coded_share.h"

#include <array>
#include <vector>

#include "thinwire/base/random.h"
#include "thinwire/codec/message_coder.h"

namespace thinwire::zero {

double CodedShare(const codec::Codec& codec) {
  const codec::MessageCoder* const coder = codec.coder();
  if (coder == nullptr) return 1;
  const std::array<int64_t, 1> runs{int64_t{1} << 17};
  std::vector<float> sample(static_cast<size_t>(runs[0]));
  const CounterRandom random(1);
  for (size_t i = 0; i < sample.size(); ++i) sample[i] = static_cast<float>(random.Normal(i));
  std::vector<std::byte> message(static_cast<size_t>(codec.EncodedBytes(runs)));
  std::vector<std::byte> coded(static_cast<size_t>(coder->MostBytes(runs)));
  codec.Encode({}, std::span<const float>(sample), runs, message);
  return static_cast<double>(coder->Code({}, message, runs, coded)) /
         static_cast<double>(message.size());
}

}  // namespace thinwire::zero
