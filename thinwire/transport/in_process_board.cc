#include "thinwire/transport/in_process_board.h"

#include "thinwire/base/error.h"

namespace thinwire::transport {

InProcessBoard::InProcessBoard(int size) {
  THINWIRE_CHECK(size >= 1, size);
  slots_.resize(static_cast<size_t>(size));
}

void InProcessBoard::Publish(int rank, int64_t beat) {
  std::lock_guard lock(mutex_);
  Slot& slot = slots_.at(static_cast<size_t>(rank));
  if (!slot.frozen) slot.beat = beat;
}

int64_t InProcessBoard::Read(int rank) {
  std::lock_guard lock(mutex_);
  return slots_.at(static_cast<size_t>(rank)).beat;
}

void InProcessBoard::DeclareFailure(const std::string& message) {
  std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = message;
}

std::string InProcessBoard::FirstFailure() {
  std::lock_guard lock(mutex_);
  return failure_;
}

void InProcessBoard::Freeze(int rank) {
  std::lock_guard lock(mutex_);
  slots_.at(static_cast<size_t>(rank)).frozen = true;
}

}  // namespace thinwire::transport
