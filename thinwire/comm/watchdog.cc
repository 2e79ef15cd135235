#include "thinwire/comm/watchdog.h"

#include "thinwire/base/error.h"

namespace thinwire::comm {

Watchdog::Watchdog(transport::HeartbeatBoard& board, int rank, int world,
                   std::chrono::milliseconds deadline, std::function<void(const std::string&)> lost,
                   std::function<Waiting()> waiting)
    : board_(board),
      rank_(rank),
      deadline_(deadline),
      lost_(std::move(lost)),
      waiting_(std::move(waiting)),
      peers_(static_cast<size_t>(world), Peer{-1, Clock::now()}) {
  thread_ = std::thread([this] { Run(); });
}

Watchdog::~Watchdog() { Stop(); }

void Watchdog::Stop() {
  stop_monitor_.Update([&] { stop_ = true; });
  if (thread_.joinable()) thread_.join();
}

void Watchdog::SayFarewell() {
  Stop();
  try {
    board_.Publish(rank_, transport::HeartbeatBoard::kFarewell);
  } catch (const std::exception&) {
    // The board went with the rank that hosts it: nobody is left to read this.
  }
}

void Watchdog::Run() {
  // Twelve beats per deadline: one is seen up to an interval late, and its absence up to one more,
  // so the deadline is overrun by at most a sixth. A declared failure is looked for more often: the
  // board may be gone, with the rank that hosts it, a second later.
  const auto beat =
      std::max<std::chrono::milliseconds>(deadline_ / 12, std::chrono::milliseconds(5));
  const auto interval = std::min<std::chrono::milliseconds>(beat, std::chrono::milliseconds(500));
  Clock::time_point due = Clock::now();
  while (true) {
    const bool beats = Clock::now() >= due;
    if (beats) due = Clock::now() + beat;
    const std::string trouble = Look(beats);
    if (!trouble.empty()) {
      lost_(trouble);
      return;
    }
    if (stop_monitor_.WaitFor(interval, [&] { return stop_; })) return;
  }
}

std::string Watchdog::Look(bool beats) {
  std::string trouble;
  try {
    if (beats) board_.Publish(rank_, ++beat_);
    trouble = board_.FirstFailure();
    const Clock::time_point now = Clock::now();
    NoticeOwnPause(now);
    if (beats && trouble.empty()) ReadPeers(now, trouble);
    if (trouble.empty()) trouble = LookAtWait(now);
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  return trouble;
}

void Watchdog::NoticeOwnPause(Clock::time_point now) {
  if (now - looked_ > deadline_ / 2) {
    for (Peer& peer : peers_) peer.seen = now;
  }
  looked_ = now;
}

void Watchdog::ReadPeers(Clock::time_point now, std::string& trouble) {
  for (size_t p = 0; p < peers_.size(); ++p) {
    if (static_cast<int>(p) == rank_) continue;
    const int64_t beat = board_.Read(static_cast<int>(p));
    if (beat != peers_[p].beat) {
      peers_[p] = {beat, now};
    } else if (beat != transport::HeartbeatBoard::kFarewell && now - peers_[p].seen > deadline_) {
      trouble = StrCat("rank ", p, " has shown no sign of life for ",
                       std::chrono::duration<double>(deadline_).count(),
                       " s: it was stopped, or its host or network is down (the time is "
                       "parallel.deadline_s)");
      return;
    }
  }
}

// A farewell comes after the last message of that rank, which has this long to arrive.
constexpr std::chrono::seconds kLastMessage(1);

std::string Watchdog::LookAtWait(Clock::time_point now) {
  const Waiting waiting = waiting_();
  if (waiting.peer < 0 || now - waiting.since < kLastMessage) return {};
  Peer& peer = peers_[static_cast<size_t>(waiting.peer)];
  const int64_t beat = board_.Read(waiting.peer);
  if (beat != peer.beat) peer = {beat, now};
  if (peer.beat == transport::HeartbeatBoard::kFarewell) {
    if (now - peer.seen < kLastMessage) return {};
    return StrCat("rank ", rank_, " waits in ", waiting.Intent(), " for rank ", waiting.peer,
                  ", which has ended its engine: all ranks call it");
  }
  const auto waited = now - waiting.since;
  if (waiting.patience == Patience::kEndless || waited < kPatience * deadline_) return {};
  return StrCat("rank ", rank_, " has waited ",
                std::chrono::duration_cast<std::chrono::seconds>(waited).count(), " s in ",
                waiting.Intent(), " for rank ", waiting.peer,
                ", which lives but has not come: all ranks call it (the time is ", kPatience,
                " times parallel.deadline_s)");
}

}  // namespace thinwire::comm
