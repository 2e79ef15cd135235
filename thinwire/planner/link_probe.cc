#include "thinwire/planner/link_probe.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/comm/agreement.h"
#include "thinwire/planner/cpu_time.h"
#include "thinwire/planner/processor_probe.h"

namespace thinwire::planner {
namespace {

constexpr int64_t kSmall = 64;
constexpr int kPings = 5;
constexpr int64_t kLeastBytes = 64 << 10;  // of a rank in a round
constexpr int64_t kMostBytes = 16 << 20;
constexpr double kLongEnough = 0.2;  // seconds of a round
constexpr int kMessages = 4;
constexpr int kBusyAgreements = 3;

struct Round {
  double seconds = 0;       // of the slowest rank
  double core_seconds = 0;  // of a rank's process, the mean
  double agreement_s = 0;   // of one agreement meanwhile, the mean
};

class HopProbe {
 public:
  HopProbe(const ProbeLinks& links, comm::Agreement& agreement, const comm::Topology& topology,
           bool slow, const ExecContext& context)
      : links_(links), agreement_(agreement), context_(context), slow_(slow) {
    const int members = slow ? topology.hosts() : topology.ranks_per_host();
    for (int m = 0; m < members; ++m) {
      const int rank =
          slow ? topology.RankOf(m, topology.local()) : topology.RankOf(topology.host(), m);
      if (rank != topology.rank()) peers_.push_back(rank);
    }
  }

  int64_t peers() const { return static_cast<int64_t>(peers_.size()); }

  // `bytes` to every peer, and as many from each, `messages` times, two at a time as a lane has
  // them on their way.
  Round Exchange(int64_t bytes, int messages = 1, int agreements = 0) {
    const size_t size = static_cast<size_t>(bytes);
    send_.resize(std::max(send_.size(), size));
    receive_.resize(std::max(receive_.size(), 2 * size * peers_.size()));
    Agree({});  // all begin together
    const double begin = WallSeconds(), cpu = ProcessCpuSeconds();
    std::array<std::vector<transport::Token>, 2> tokens;
    double sent = begin, agreed = begin;
    for (int i = 0; i < messages; ++i) {
      Post(size, tokens[static_cast<size_t>(i % 2)]);
      if (i > 0) continue;
      sent = WallSeconds();
      for (int k = 0; k < agreements; ++k) Agree({});
      agreed = WallSeconds();
    }
    for (const auto& each : tokens) {
      for (const transport::Token& token : each) token->Wait();
    }
    const Round mine{WallSeconds() - begin, ProcessCpuSeconds() - cpu,
                     agreements > 0 ? (agreed - sent) / agreements : 0};
    return Agree(mine);
  }

 private:
  // After those before it have ended.
  void Post(size_t size, std::vector<transport::Token>& tokens) {
    for (const transport::Token& token : tokens) token->Wait();
    tokens.clear();
    const transport::Tag tag = tag_++;
    for (size_t p = 0; p < peers_.size(); ++p) {
      const size_t place = (tag % 2) * peers_.size() + p;
      const auto room = std::as_writable_bytes(std::span(receive_).subspan(place * size, size));
      tokens.push_back(links_.bulk.Recv(context_, peers_[p], tag, room));
    }
    for (const int peer : peers_) {
      const auto data = std::as_bytes(std::span(send_).first(size));
      tokens.push_back(links_.bulk.Send(context_, peer, tag, data));
    }
  }

  Round Agree(const Round& mine) {
    comm::Record record;
    record.SetIntent(static_cast<uint64_t>(tag_), "round %u of the probe of the %s link", tag_,
                     slow_ ? "slow" : "fast");
    record.values = {mine.seconds, mine.core_seconds, mine.agreement_s};
    const auto records = agreement_.Exchange(record);
    const double ranks = static_cast<double>(records.size());
    Round all{0, comm::SumOf(records, 1) / ranks, comm::SumOf(records, 2) / ranks};
    for (const comm::Record& each : records) all.seconds = std::max(all.seconds, each.values[0]);
    return all;
  }

  const ProbeLinks& links_;
  comm::Agreement& agreement_;
  ExecContext context_;
  const bool slow_;
  std::vector<int> peers_;
  std::vector<char> send_, receive_;
  transport::Tag tag_ = 0;
};

// `ranks` share the link.
Link MeasureHop(HopProbe& probe, int ranks, double* busy_agreement_s) {
  std::array<double, kPings> pings;
  for (double& ping : pings) ping = probe.Exchange(kSmall).seconds;
  std::ranges::nth_element(pings, pings.begin() + kPings / 2);
  Link link{.latency_s = pings[kPings / 2]};
  int64_t bytes = std::max<int64_t>(kLeastBytes / probe.peers(), 1024);
  const int64_t most = std::max<int64_t>(kMostBytes / probe.peers(), bytes);
  for (Round round = probe.Exchange(bytes); round.seconds < kLongEnough && bytes < most;) {
    bytes = std::min(2 * bytes, most);
    round = probe.Exchange(bytes);
  }
  // Message after message, as in a step: with what a link stands still between them.
  const Round round = probe.Exchange(bytes, kMessages);
  const double sent = static_cast<double>(kMessages * bytes * probe.peers());
  link.bytes_per_s = sent * ranks / round.seconds;
  link.core_s_per_byte = round.core_seconds / sent;
  if (busy_agreement_s != nullptr) {
    *busy_agreement_s = probe.Exchange(bytes, 1, kBusyAgreements).agreement_s;
  }
  return link;
}

double CoresPerRank(comm::Agreement& agreement) {
  // 52 bits pass through a double.
  const double id = static_cast<double>(CoresId() >> 12);
  comm::Record record;
  record.SetIntent(0, "the cores of each rank");
  record.values = {id, static_cast<double>(UsableCores())};
  const auto records = agreement.Exchange(record);
  // The rank that has least: all wait for it.
  double least = std::numeric_limits<double>::infinity();
  for (const comm::Record& each : records) {
    const auto sharing = std::ranges::count_if(
        records, [&](const comm::Record& other) { return other.values[0] == each.values[0]; });
    least = std::min(least, each.values[1] / static_cast<double>(sharing));
  }
  return least;
}

}  // namespace

void MeasureLinks(const ProbeLinks& links, const comm::Topology& topology,
                  const ExecContext& context, Machine& machine) {
  comm::Agreement agreement(links.control, context);
  machine.cores_per_rank = CoresPerRank(agreement);
  if (topology.world() == 1) return;
  std::array<double, kPings> times;
  for (double& seconds : times) {
    const double begin = WallSeconds();
    comm::Record record;
    record.SetIntent(0, "the time of an agreement");
    agreement.Exchange(record);
    seconds = WallSeconds() - begin;
  }
  std::ranges::nth_element(times, times.begin() + kPings / 2);
  std::array<double, 1> idle{times[kPings / 2]};
  agreement.Sum(idle);
  machine.idle_agreement_s = machine.busy_agreement_s = idle[0] / topology.world();
  if (topology.ranks_per_host() > 1) {
    HopProbe probe(links, agreement, topology, false, context);
    machine.fast = MeasureHop(probe, 1, nullptr);
  }
  if (topology.hosts() > 1) {
    HopProbe probe(links, agreement, topology, true, context);
    machine.slow = MeasureHop(probe, topology.ranks_per_host(), &machine.busy_agreement_s);
  }
}

Machine Measure(const ProbeLinks& links, const comm::Topology& topology,
                std::span<const std::string_view> recipes, DType wire, const ExecContext& context) {
  Machine machine;
  MeasureArithmetic(context, machine);
  const std::vector<zero::CodecPtr> codecs = CodecsOf(recipes, wire);
  std::vector<double> numbers{machine.norm_s, machine.copy_s_per_byte, machine.optimizer_s,
                              machine.rotate_s, machine.difference_s};
  const size_t first = numbers.size();
  for (const zero::CodecPtr& codec : codecs) {
    const CodecSpeed speed = MeasureCodec(*codec, context);
    numbers.insert(numbers.end(), {speed.encode_s, speed.decode_s, speed.sum_s});
  }
  comm::Agreement agreement(links.control, context);
  agreement.Sum(numbers);
  for (double& number : numbers) number /= topology.world();
  machine.norm_s = numbers[0];
  machine.copy_s_per_byte = numbers[1];
  machine.optimizer_s = numbers[2];
  machine.rotate_s = numbers[3];
  machine.difference_s = numbers[4];
  for (size_t c = 0; c < codecs.size(); ++c) {
    const size_t at = first + 3 * c;
    const CodecSpeed speed{numbers[at], numbers[at + 1], numbers[at + 2]};
    machine.codecs.emplace(codecs[c]->name(), speed);
    machine.other.encode_s = std::max(machine.other.encode_s, speed.encode_s);
    machine.other.decode_s = std::max(machine.other.decode_s, speed.decode_s);
    machine.other.sum_s = std::max(machine.other.sum_s, speed.sum_s);
  }
  MeasureLinks(links, topology, context, machine);
  return machine;
}

std::string Describe(const Machine& machine, const comm::Topology& topology) {
  std::ostringstream out;
  out << std::setprecision(3);
  const auto link = [&](const Link& each) {
    out << each.bytes_per_s / 1e6 << " MB/s each way, " << each.latency_s * 1e3 << " ms";
  };
  if (topology.hosts() > 1) {
    out << "slow link of a host ";
    link(machine.slow);
    out << "; agreements " << machine.idle_agreement_s * 1e3 << " ms, behind bulk data "
        << machine.busy_agreement_s * 1e3 << " ms; ";
  }
  if (topology.ranks_per_host() > 1) {
    out << "fast link of a rank ";
    link(machine.fast);
    out << "; ";
  }
  out << machine.cores_per_rank << " cores per rank";
  return out.str();
}

}  // namespace thinwire::planner
