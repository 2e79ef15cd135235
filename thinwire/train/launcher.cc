#include "thinwire/train/launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::train {
namespace {

using Clock = std::chrono::steady_clock;

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { Reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    Reset();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  int get() const { return fd_; }
  void Reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

[[noreturn]] void ThrowErrno(std::string_view what) {
  throw IoError(StrCat(what, ": ", std::strerror(errno)));
}

// A port that nobody has now. Another program may take it before rank 0 does; then rank 0 says so.
int FreePort() {
  const Descriptor socket_fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (socket_fd.get() < 0 || bind(socket_fd.get(), any, size) != 0 ||
      getsockname(socket_fd.get(), any, &size) != 0) {
    ThrowErrno("cannot find a free port on 127.0.0.1");
  }
  return ntohs(address.sin_port);
}

struct Rank {
  pid_t pid = -1;
  Descriptor errors;    // the reading end of its stderr
  std::string partial;  // a line of it without its end
};

class Ranks {
 public:
  explicit Ranks(const LaunchOptions& options) : options_(options), port_(FreePort()) {
    sigset_t handled;
    sigemptyset(&handled);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&handled, signal);
    sigprocmask(SIG_BLOCK, &handled, &old_mask_);
    signals_ = Descriptor(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
    if (signals_.get() < 0) ThrowErrno("signalfd");
    for (int rank = 0; rank < options.ranks; ++rank) ranks_.push_back(Start(rank));
  }
  ~Ranks() {
    Signal(SIGKILL);
    for (const Rank& rank : ranks_) {
      if (rank.pid > 0) waitpid(rank.pid, nullptr, 0);
    }
    signals_.Reset();
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }

  int WaitForAll() {
    while (std::ranges::any_of(ranks_, [](const Rank& rank) { return rank.pid > 0; })) {
      Poll();
      HandOnSignals();
      Reap();
      if (code_ != 0 && Clock::now() - failed_at_ > options_.grace) Signal(SIGKILL);
    }
    for (Rank& rank : ranks_) ReadErrors(rank);
    return code_;
  }

 private:
  Rank Start(int number) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) ThrowErrno("pipe");
    Rank rank;
    rank.errors = Descriptor(ends[0]);
    const Descriptor write_end(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    std::fflush(nullptr);
    const pid_t parent = getpid();
    rank.pid = fork();
    if (rank.pid < 0) ThrowErrno("fork");
    if (rank.pid == 0) RunChild(number, parent, write_end.get());
    return rank;
  }

  [[noreturn]] void RunChild(int number, pid_t parent, int errors) const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // it died before the line above
    // A group of its own: the terminal's Ctrl-C reaches the launcher alone, which hands it on once.
    setpgid(0, 0);
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
    const int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    if (number != 0) dup2(null, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    SetVariables(number);
    std::vector<char*> argv;
    std::string name = "thinwire-train";
    argv.push_back(name.data());
    for (const std::string& argument : options_.arguments) {
      argv.push_back(const_cast<char*>(argument.c_str()));  // NOLINT: execv's signature
    }
    argv.push_back(nullptr);
    execv(options_.program.c_str(), argv.data());
    std::fprintf(stderr, "thinwire: rank %d: cannot start %s: %s\n", number,
                 options_.program.c_str(), std::strerror(errno));
    _exit(127);
  }

  void SetVariables(int number) const {
    const auto set = [](const char* name, const std::string& value) {
      setenv(name, value.c_str(), 1);
    };
    const std::string world = std::to_string(options_.ranks);
    set("RANK", std::to_string(number));
    set("LOCAL_RANK", std::to_string(number));
    set("WORLD_SIZE", world);
    set("LOCAL_WORLD_SIZE", world);
    set("MASTER_ADDR", "127.0.0.1");
    set("MASTER_PORT", std::to_string(port_));
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    setenv("OMP_NUM_THREADS", std::to_string(std::max(1, cores / options_.ranks)).c_str(), 0);
  }

  void Poll() {
    std::vector<pollfd> waiting = {{signals_.get(), POLLIN, 0}};
    for (const Rank& rank : ranks_) {
      if (rank.errors.get() >= 0) waiting.push_back({rank.errors.get(), POLLIN, 0});
    }
    poll(waiting.data(), waiting.size(), code_ != 0 ? 100 : 1000);
    for (Rank& rank : ranks_) ReadErrors(rank);
  }

  void ReadErrors(Rank& rank) {
    std::array<char, 4096> buffer{};
    while (rank.errors.get() >= 0) {
      const ssize_t count = read(rank.errors.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return;
      rank.partial.append(buffer.data(), static_cast<size_t>(count));
      if (count == 0) {
        rank.errors.Reset();
        if (!rank.partial.empty()) rank.partial += '\n';
      }
      for (size_t end; (end = rank.partial.find('\n')) != std::string::npos;) {
        Show(rank.partial.substr(0, end));
        rank.partial.erase(0, end + 1);
      }
    }
  }

  void Show(const std::string& line) {
    if (lines_.IsNew(line)) std::fprintf(stderr, "%s\n", line.c_str());
  }

  void HandOnSignals() {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal != SIGCHLD) Signal(signal);
    }
  }

  void Signal(int signal) const {
    for (const Rank& rank : ranks_) {
      if (rank.pid > 0) kill(rank.pid, signal);
    }
  }

  void Reap() {
    for (size_t number = 0; number < ranks_.size(); ++number) {
      Rank& rank = ranks_[number];
      int status = 0;
      if (rank.pid <= 0 || waitpid(rank.pid, &status, WNOHANG) != rank.pid) continue;
      rank.pid = -1;
      ReadErrors(rank);
      const bool killed = WIFSIGNALED(status);
      const int code = killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      // Ranks that the grace period ended are no news.
      if (killed && !(code_ != 0 && WTERMSIG(status) == SIGKILL)) {
        Show(StrCat("thinwire: rank ", number, ": ended by signal ", WTERMSIG(status), " (",
                    strsignal(WTERMSIG(status)), ")"));
      }
      if (code != 0 && code_ == 0) failed_at_ = Clock::now();
      // A rank that only tells of another's failure ends with 1: 2 (bad input) and more (a signal)
      // are nearer to the cause, whoever ends first. What the grace period ended is no cause.
      const bool ended_by_us = code_ != 0 && killed && WTERMSIG(status) == SIGKILL;
      if (!ended_by_us) code_ = std::max(code_, code);
    }
  }

  const LaunchOptions& options_;
  int port_;
  sigset_t old_mask_{};
  Descriptor signals_;
  std::vector<Rank> ranks_;
  SharedLines lines_;
  int code_ = 0;
  Clock::time_point failed_at_;
};

}  // namespace

bool SharedLines::IsNew(std::string_view line) {
  constexpr std::string_view kPrefix = "thinwire: rank ";
  if (line.starts_with(kPrefix)) {
    const size_t colon = line.find(": ", kPrefix.size());
    if (colon != std::string_view::npos) line.remove_prefix(colon + 2);
  }
  return seen_.emplace(line).second;
}

void RequireNoLauncher() {
  if (std::getenv("RANK") == nullptr) return;
  throw UsageError(
      "--ranks starts the ranks itself, but RANK is set, as by torchrun; leave one of them out");
}

int Launch(const LaunchOptions& options) {
  if (options.ranks < 1 || options.ranks > 1024) {
    throw UsageError(StrCat("--ranks ", options.ranks, ": expected 1 to 1024"));
  }
  RequireNoLauncher();
  Ranks ranks(options);
  return ranks.WaitForAll();
}

}  // namespace thinwire::train
