// The server's HTTP side: addresses, limits of connections, who may ask. `Service` answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "thinwire/serve/service.h"

namespace thinwire::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;      // 0: a free one
  std::string api_key;  // empty: everybody may ask
  int64_t body_bytes = 4 << 20;
  int64_t connections = 64;  // at once; others wait to be accepted
};

class Server {
 public:
  // `service` must outlive this.
  Server(Service& service, const ServerOptions& options);
  ~Server();

  // The port. UsageError where the address cannot be had.
  int Bind();
  // Serves until Stop, which another thread may call.
  void Run();
  void Stop();

 private:
  class Http;
  std::unique_ptr<Http> http_;
};

}  // namespace thinwire::serve
