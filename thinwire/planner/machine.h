// What a step runs on: links, cores and the speed of codecs, as measured (planner/probe.h) or
// assumed. All ranks are taken to be alike and in step, so one of them stands for all.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>

namespace thinwire::planner {

// Core-seconds per element.
struct CodecSpeed {
  double encode_s = 0;
  double decode_s = 0;
  double sum_s = 0;  // of each summand of a reduction
};

struct Link {
  double bytes_per_s = std::numeric_limits<double>::infinity();  // each way
  double latency_s = 0;                                          // of a small message
  double core_s_per_byte = 0;  // what a rank's processor works for each byte that it sends, and
                               // for the one that it receives meanwhile
};

struct Machine {
  Link slow;  // of a host, shared by its ranks
  Link fast;  // of a rank
  // Sends and receives at the same time. Otherwise both take turns on the slow link.
  bool full_duplex = true;
  // An agreement of all ranks (comm/agreement.h): with nothing else on the slow link, and behind
  // bulk data.
  double idle_agreement_s = 0;
  double busy_agreement_s = 0;

  // Cores that a rank has when all ranks work: those of the machine over its ranks.
  double cores_per_rank = std::numeric_limits<double>::infinity();
  // That a pass can use. 0: it runs on an accelerator, and takes no core from the exchanges.
  double compute_threads = 1;

  std::map<std::string, CodecSpeed, std::less<>> codecs;  // by Codec::name()
  CodecSpeed other;                                       // of those that are not there
  double copy_s_per_byte = 0;
  double rotate_s = 0;      // of an element of a gradient, in place
  double difference_s = 0;  // of an element of weights, to a reference
  double norm_s = 0;        // of a gradient's element
  double optimizer_s = 0;   // of an element that is updated

  const CodecSpeed& SpeedOf(std::string_view codec) const {
    const auto found = codecs.find(codec);
    return found == codecs.end() ? other : found->second;
  }
};

}  // namespace thinwire::planner
