#include "thinwire/serve/server.h"

#include <httplib.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "thinwire/serve/api_error.h"
#include "thinwire/serve/page.h"

namespace thinwire::serve {
namespace {

constexpr const char* kJson = "application/json";
// How often a client is asked whether it is still there.
constexpr std::chrono::milliseconds kLook{100};
// A slow or silent peer.
constexpr time_t kIoSeconds = 10;
constexpr time_t kKeepAliveSeconds = 5;
constexpr size_t kKeepAliveRequests = 1000;

// A thread for each connection, up to a number of them. Those beyond it wait in the kernel: the
// thread that accepts waits here.
class Connections : public httplib::TaskQueue {
 public:
  explicit Connections(int64_t most) {
    for (int64_t i = 0; i < most; ++i) threads_.emplace_back([this] { Work(); });
  }

  void enqueue(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return std::ssize(tasks_) < std::ssize(threads_); });
    tasks_.push_back(std::move(task));
    work_.notify_one();
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [this] { return ended_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      room_.notify_one();
      lock.unlock();
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable work_, room_;
  std::deque<std::function<void()>> tasks_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

void SetError(httplib::Response& response, const ApiError& error) {
  response.status = error.status();
  if (error.status() == 429) response.set_header("Retry-After", "1");
  response.set_content(Dump(ErrorBody(error)), kJson);
}

// In a time that does not depend on how much of it is right.
bool SameSecret(const std::string& a, const std::string& b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ b[b.empty() ? 0 : i % b.size()]);
  }
  return difference == 0;
}

bool Write(httplib::DataSink& sink, const std::string& text) {
  return sink.write(text.data(), text.size());
}

// Why an answer is none, for a client that has got the head of the response already.
std::string Problem(const Answer& answer, Outcome outcome) {
  const bool late = outcome == Outcome::kTimeout;
  return Dump(ErrorBody(ApiError(late ? 504 : 500, "",
                                 late ? "no answer in the time for a request" : answer.failure())));
}

bool Failed(Outcome outcome, const Answer& answer) {
  return outcome == Outcome::kFailed || (outcome == Outcome::kTimeout && answer.tokens() == 0);
}

// False: the client is gone or must see that something is missing.
bool SendEvents(Started& started, httplib::DataSink& sink) {
  const Piece piece = started.answer->Next(kLook);
  if (!sink.is_writable()) return false;
  if (Failed(piece.outcome, *started.answer)) {
    if (Write(sink, "data: " + Problem(*started.answer, piece.outcome) + "\n\n")) sink.done();
    return true;
  }
  const std::string event = started.reply.Event(piece);
  if (!event.empty() && !Write(sink, event)) return false;
  if (piece.outcome == Outcome::kUnfinished) return true;
  if (!Write(sink, started.reply.End(*started.answer))) return false;
  sink.done();
  return true;
}

bool SendWhole(Started& started, Piece& whole, httplib::DataSink& sink) {
  Piece piece = started.answer->Next(kLook);
  if (!sink.is_writable()) return false;
  whole.text += piece.text;
  std::ranges::move(piece.tokens, std::back_inserter(whole.tokens));
  whole.outcome = piece.outcome;
  if (whole.outcome == Outcome::kUnfinished) return true;
  if (Failed(whole.outcome, *started.answer)) {
    Write(sink, Problem(*started.answer, whole.outcome));
    return false;
  }
  if (!Write(sink, started.reply.Whole(whole, *started.answer))) return false;
  sink.done();
  return true;
}

// The head goes out at once and the body as it comes: only a body in progress tells whether the
// client is still there.
void Send(Started started, const httplib::Request& request, httplib::Response& response) {
  const auto shared = std::make_shared<Started>(std::move(started));
  const auto whole = std::make_shared<Piece>();
  const char* const type = shared->stream ? "text/event-stream" : kJson;
  const auto provide = [shared, whole](size_t, httplib::DataSink& sink) {
    return shared->stream ? SendEvents(*shared, sink) : SendWhole(*shared, *whole, sink);
  };
  const auto release = [shared](bool) { shared->answer->Leave(); };
  response.set_header("Cache-Control", "no-store");
  if (request.version == "HTTP/1.0") {
    response.set_content_provider(type, provide, release);
  } else {
    response.set_chunked_content_provider(type, provide, release);
  }
}

}  // namespace

class Server::Http {
 public:
  Http(Service& service, const ServerOptions& options) : service_(service), options_(options) {
    server_.new_task_queue = [most = options.connections] { return new Connections(most); };
    server_.set_payload_max_length(static_cast<size_t>(options.body_bytes));
    server_.set_read_timeout(kIoSeconds);
    server_.set_write_timeout(kIoSeconds);
    server_.set_keep_alive_timeout(kKeepAliveSeconds);
    server_.set_keep_alive_max_count(kKeepAliveRequests);
    server_.set_tcp_nodelay(true);
    // The library's own choice lets two servers share a port.
    server_.set_socket_options([](socket_t socket) {
      const int on = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    });
    server_.set_exception_handler(
        [](const auto&, auto& response, std::exception_ptr error) { Explain(error, response); });
    server_.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
      if (response.body.empty()) {
        SetError(response, ApiError(response.status, "",
                                    StrCat(request.method, " ", request.path, ": HTTP status ",
                                           response.status)));
      }
    });
    AddPages();
    Post("/v1/completions", [this](const auto& request, const auto& body, auto& response) {
      Send(service_.Complete(body), request, response);
    });
    Post("/v1/chat/completions", [this](const auto& request, const auto& body, auto& response) {
      Send(service_.Chat(body), request, response);
    });
    Post("/v1/embeddings", [this](const auto&, const auto& body, auto& response) {
      response.set_content(service_.Embed(body), kJson);
    });
  }

  int Bind() {
    const int port = options_.port == 0 ? server_.bind_to_any_port(options_.host)
                     : server_.bind_to_port(options_.host, options_.port) ? options_.port
                                                                          : -1;
    if (port >= 0) return port;
    throw UsageError(StrCat("cannot listen on ", options_.host, ':', options_.port,
                            "; is something else there? --port takes another"));
  }

  void Run() { server_.listen_after_bind(); }

  void Stop() {
    service_.Stop();
    server_.stop();
  }

 private:
  using Handle =
      std::function<void(const httplib::Request&, const std::string&, httplib::Response&)>;

  static void Explain(const std::exception_ptr& error, httplib::Response& response) {
    try {
      std::rethrow_exception(error);
    } catch (const ApiError& e) {
      SetError(response, e);
    } catch (const UsageError& e) {
      SetError(response, ApiError(400, "", e.what()));
    } catch (const std::exception& e) {
      SetError(response, ApiError(500, "", e.what()));
    }
  }

  void AddPages() {
    server_.Get("/", [](const auto&, auto& response) {
      // Nothing but the page's own parts, and nobody may show it inside another.
      response.set_header("Content-Security-Policy",
                          "default-src 'none'; style-src 'unsafe-inline'; script-src "
                          "'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'");
      const std::string_view page = ChatPage();
      response.set_content(page.data(), page.size(), "text/html; charset=utf-8");
    });
    server_.Get("/health", [](const auto&, auto& response) {
      response.set_content(R"({"status":"ok"})", kJson);
    });
    server_.Get("/metrics", [this](const auto& request, auto& response) {
      CheckKey(request);
      response.set_content(service_.Metrics(), "text/plain; version=0.0.4");
    });
    server_.Get("/v1/models", [this](const auto& request, auto& response) {
      CheckKey(request);
      response.set_content(service_.Models(), kJson);
    });
  }

  void Post(const char* path, Handle handle) {
    server_.Post(path, [this, handle = std::move(handle)](const httplib::Request& request,
                                                          httplib::Response& response,
                                                          const httplib::ContentReader& reader) {
      const std::string body = Body(request, reader, response.status);
      CheckKey(request);
      handle(request, body, response);
    });
  }

  // The library's own limit does not hold for chunked bodies.
  std::string Body(const httplib::Request& request, const httplib::ContentReader& reader,
                   const int& status) const {
    // A page of another site cannot send this without asking first.
    const bool json = request.get_header_value("Content-Type").starts_with(kJson);
    if (!json) throw ApiError(415, "", "Content-Type: must be application/json");
    const auto most = static_cast<size_t>(options_.body_bytes);
    std::string body;
    bool fits = true;
    const bool read = reader([&](const char* data, size_t size) {
      fits = size <= most - body.size();
      if (fits) body.append(data, size);
      return fits;
    });
    if (!fits || status == 413) {
      throw ApiError(413, "", StrCat("a body of more than ", most, " bytes; --body raises it"));
    }
    if (!read) throw ApiError(400, "", "the body ended early");
    return body;
  }

  void CheckKey(const httplib::Request& request) const {
    if (options_.api_key.empty()) return;
    if (SameSecret(request.get_header_value("Authorization"), "Bearer " + options_.api_key)) return;
    throw ApiError(401, "", "the API key is missing or wrong");
  }

  Service& service_;
  const ServerOptions options_;
  httplib::Server server_;
};

Server::Server(Service& service, const ServerOptions& options)
    : http_(std::make_unique<Http>(service, options)) {}

Server::~Server() = default;

int Server::Bind() { return http_->Bind(); }

void Server::Run() { http_->Run(); }

void Server::Stop() { http_->Stop(); }

}  // namespace thinwire::serve
