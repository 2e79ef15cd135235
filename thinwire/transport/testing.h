// What tests of transports share: messages of known bytes, and ranks that exchange many of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/transport/shared_link.h"
#include "thinwire/transport/transport.h"

namespace thinwire::transport {

inline const ExecContext kContext;

// Random, with a period that is no divisor of any ring: a piece in another's place would show.
inline void Fill(uint64_t key, std::span<std::byte> data) {
  constexpr size_t kPeriod = 1021;
  uint64_t state = Mix64(key);
  for (std::byte& byte : data.first(std::min(kPeriod, data.size()))) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
  for (size_t done = kPeriod; done < data.size();) {
    const size_t more = std::min(done, data.size() - done);
    std::memcpy(data.data() + done, data.data(), more);
    done += more;
  }
}

inline std::vector<std::byte> Pattern(uint64_t key, size_t bytes) {
  std::vector<std::byte> data(bytes);
  Fill(key, data);
  return data;
}

inline std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const PeerError& error) {
    return error.what();
  }
  return "no PeerError";
}

inline void OnThreads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

// Every rank sends `messages` messages to every other and posts sends and receives in an order of
// its own, in more than there are slots. Sizes around those of the ring.
inline void AllToAll(Transport& transport, int messages) {
  const int me = transport.rank(), size = transport.size();
  const auto key = [](int from, int to, int tag) {
    return static_cast<uint64_t>((from * 100 + to) * 1000 + tag);
  };
  const auto bytes = [&](int from, int to, int tag) -> size_t {
    if (tag == 0) return 1;
    if (tag == 1) return kStageBytes;
    if (tag == 2) return 3 * kStageBytes + 12345;
    return 1 + Mix64(key(from, to, tag)) % (size_t{1} << (4 + tag % 14));
  };
  struct Job {
    int peer, tag;
    bool send;
    std::vector<std::byte> data;
    Token token;
  };
  std::vector<Job> jobs;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == me) continue;
    for (int tag = 0; tag < messages; ++tag) {
      jobs.push_back({peer, tag, true, Pattern(key(me, peer, tag), bytes(me, peer, tag)), {}});
      jobs.push_back({peer, tag, false, std::vector<std::byte>(bytes(peer, me, tag)), {}});
    }
  }
  const CounterRandom random(static_cast<uint64_t>(me));
  for (size_t i = jobs.size(); i > 1; --i) std::swap(jobs[i - 1], jobs[random.Bits(i) % i]);
  for (Job& job : jobs) {
    const auto tag = static_cast<Tag>(job.tag);
    job.token = job.send ? transport.Send(kContext, job.peer, tag, job.data)
                         : transport.Recv(kContext, job.peer, tag, job.data);
  }
  for (Job& job : jobs) job.token->Wait();
  for (const Job& job : jobs) {
    if (job.send) continue;
    THINWIRE_CHECK(job.data == Pattern(key(job.peer, me, job.tag), job.data.size()), "rank ", me,
                   " from ", job.peer, " tag ", job.tag);
  }
}

}  // namespace thinwire::transport
