// Names that saving and loading a checkpoint share; checkpoint.h describes them.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "thinwire/base/error.h"

namespace thinwire::zero {

constexpr const char* kFormat = "thinwire-checkpoint";
constexpr int64_t kVersion = 1;

constexpr size_t kKinds = 3;
constexpr std::array<const char*, kKinds> kKindNames{"master", "m", "v"};

inline std::string TensorName(const std::string& parameter, size_t kind, int64_t offset) {
  return StrCat(parameter, "/", kKindNames[kind], "@", offset);
}

}  // namespace thinwire::zero
