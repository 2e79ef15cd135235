// Responses in OpenAI's form.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "thinwire/serve/job.h"
#include "thinwire/serve/worker.h"

namespace thinwire::serve {

// One answer to completions or chat: as a whole, or its pieces as server-sent events.
class Reply {
 public:
  struct Form {
    std::string model;
    bool chat = false;
    bool log_probabilities = false;
    bool likeliest = false;  // those of other tokens, too
    bool usage = false;      // of a stream: a last event that counts tokens
  };
  // `number` tells answers of this server apart.
  Reply(Form form, int64_t number);

  // `piece` holds all of the answer.
  std::string Whole(const Piece& piece, const Answer& answer);
  // Empty where a piece has nothing to show. After the last one: End.
  std::string Event(const Piece& piece);
  std::string End(const Answer& answer) const;

 private:
  nlohmann::ordered_json Frame(bool event) const;
  nlohmann::ordered_json LogProbabilities(const std::vector<AnswerToken>& tokens);

  const Form form_;
  const int64_t created_;
  const std::string id_;
  int64_t offset_ = 0;  // bytes of tokens so far
  bool begun_ = false;
};

std::string ModelList(const std::string& model);
std::string EmbeddingList(const std::string& model, const std::vector<std::vector<float>>& vectors,
                          int64_t tokens);
// Prometheus' text format.
std::string Metrics(const WorkerCounts& counts, int64_t requests, int64_t refused);

}  // namespace thinwire::serve
