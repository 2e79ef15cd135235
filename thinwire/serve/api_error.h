// What a client did wrong, in the form that clients of OpenAI's API expect.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "thinwire/base/error.h"

namespace thinwire::serve {

class ApiError : public UsageError {
 public:
  // `field` is the request's field that must change; empty: none.
  ApiError(int status, std::string field, const std::string& message)
      : UsageError(message), status_(status), field_(std::move(field)) {}

  int status() const { return status_; }
  const std::string& field() const { return field_; }

 private:
  int status_;
  std::string field_;
};

// 400: `field` with what is wrong with it.
inline ApiError BadField(const std::string& field, const std::string& problem) {
  return {400, field, field + ": " + problem};
}

inline nlohmann::ordered_json ErrorBody(const ApiError& error) {
  nlohmann::ordered_json field = nullptr;
  if (!error.field().empty()) field = error.field();
  const bool clients = error.status() < 500;
  return {{"error",
           {{"message", error.what()},
            {"type", clients ? "invalid_request_error" : "server_error"},
            {"param", field},
            {"code", nullptr}}}};
}

// As the body of a response: bytes that are no UTF-8 become U+FFFD.
inline std::string Dump(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace thinwire::serve
