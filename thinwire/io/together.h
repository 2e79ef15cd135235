// Work that must succeed on every rank or count as failed on every rank.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include "thinwire/base/error.h"

namespace thinwire::io {

// Logical AND over all ranks; a barrier too. May throw PeerError.
using AllAgree = std::function<bool(bool ok)>;

// Runs `work` and agrees on its success. Where it threw, that goes on; elsewhere an IoError says
// that `target` failed on another rank. Called by every rank.
template <typename Work>
void Together(const AllAgree& all_agree, const std::string& target, const Work& work) {
  std::exception_ptr error;
  try {
    work();
  } catch (...) {  // of any kind: the others wait for this rank's answer
    error = std::current_exception();
  }
  if (all_agree(error == nullptr)) return;
  if (error) std::rethrow_exception(error);
  throw IoError(StrCat(target, " failed on another rank; its message says why"));
}

}  // namespace thinwire::io
