// Names that saving and loading a checkpoint share; checkpoint.h describes them.
#pragma once

#include <cstdint>
#include <iomanip>
#include <string>

#include "thinwire/base/error.h"

namespace thinwire::zero {

constexpr const char* kFormat = "thinwire-checkpoint";
constexpr int64_t kVersion = 2;
constexpr const char* kMaster = "master";

// `kind` is kMaster or the name of a state.
inline std::string TensorName(const std::string& parameter, const std::string& kind,
                              int64_t offset) {
  return StrCat(parameter, "/", kind, "@", offset);
}

inline std::string RankFileName(int rank) {
  return StrCat("rank-", std::setfill('0'), std::setw(5), rank, ".safetensors");
}

}  // namespace thinwire::zero
