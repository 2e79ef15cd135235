// The command `thinwire-serve`, which `thinwire serve` becomes. Exit codes as of `thinwire`.
#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <iostream>
#include <new>
#include <thread>

#include "apps/engine_options.h"
#include "apps/failure.h"
#include "thinwire/base/error.h"
#include "thinwire/infer/engine.h"
#include "thinwire/io/file.h"
#include "thinwire/serve/server.h"

namespace thinwire::app {
namespace {

struct Question {
  std::string model;
  infer::EngineOptions engine = {.sequences = 4};
  serve::ServiceLimits limits;
  serve::ServerOptions server;
};

constexpr const char* kFooter =
    "Clients of OpenAI's API use http://HOST:PORT/v1; a browser finds a chat at the address "
    "itself.\n"
    "Ctrl-C ends it. Example: thinwire serve model.gguf --port 8080\n"
    "docs/serve.md lists what is answered, and the limits.";

void AddOptions(CLI::App& app, Question& q) {
  app.add_option("MODEL", q.model, "A .gguf file")->required();
  const auto add = [&app](const char* name, auto& value, const char* what) {
    return app.add_option(name, value, what)->capture_default_str();
  };
  add("--host", q.server.host, "Address to listen on; 0.0.0.0: all, for every machine to use");
  add("--port", q.server.port, "Port; 0: a free one")->check(CLI::Range(0, 65535));
  app.add_option("--api-key", q.server.api_key, "Who does not send it is refused")
      ->envname("THINWIRE_API_KEY");
  add("--parallel", q.engine.sequences, "Requests computed at once, each with a --context")
      ->check(CLI::Range(1, 256));
  add("--tokens", q.limits.tokens, "Tokens of an answer, at most")->check(CLI::Range(1, 1 << 24));
  add("--queue", q.limits.queue, "Requests that may wait")->check(CLI::Range(0, 1 << 16));
  add("--seconds", q.limits.seconds, "Time for a request")->check(CLI::Range(1, 86400));
  add("--body", q.server.body_bytes, "Bytes of a request, at most")
      ->check(CLI::Range(1024, 1 << 30));
  add("--connections", q.server.connections, "Clients at once")->check(CLI::Range(1, 1024));
  AddGuessOptions(app, q.engine, q.limits.guesses);
  AddEngineOptions(app, q.engine);
}

void Serve(const Question& question) {
  // Before the first thread, so that none but the one below gets them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  infer::Engine engine(question.model, question.engine);
  serve::Service service(engine, question.limits);
  serve::Server server(service, question.server);
  const int port = server.Bind();
  std::thread watcher([&] {
    int signal = 0;
    sigwait(&signals, &signal);
    server.Stop();
  });
  std::cerr << "thinwire: " << engine.path() << " on http://" << question.server.host << ':' << port
            << '\n';
  server.Run();
  // Where it ended by itself the watcher still waits.
  pthread_kill(watcher.native_handle(), SIGTERM);
  watcher.join();
}

int Run(int argc, char** argv) {
  // `thinwire serve` hands its own arguments over.
  const bool handed = argc > 1 && std::string_view(argv[1]) == "serve";
  CLI::App app("Serve a language model over HTTP, as OpenAI's API does", "thinwire serve");
  app.footer(kFooter);
  Question question;
  AddOptions(app, question);
  try {
    app.parse(handed ? argc - 1 : argc, handed ? argv + 1 : argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return Fail(StrCat(error.what(), " (see `thinwire serve --help`)"), kBadInput);
  }
  Serve(question);
  return 0;
}

}  // namespace
}  // namespace thinwire::app

int main(int argc, char** argv) { return thinwire::app::Guarded(thinwire::app::Run, argc, argv); }
