#include "thinwire/torch/store_board.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "thinwire/base/error.h"

namespace thinwire::adapter {
namespace {

const char kFailureKey[] = "failure";

std::string BeatKey(int rank) { return StrCat("beat/", rank); }

// What the key holds after it was set to `desired` if it held nothing.
std::string SetIfEmpty(c10d::Store& store, const std::string& key, const std::string& desired) {
  const std::vector<uint8_t> bytes(desired.begin(), desired.end());
  const std::vector<uint8_t> now = store.compareSet(key, {}, bytes);
  return {now.begin(), now.end()};
}

}  // namespace

StoreBoard::StoreBoard(PatientStore& store, int rank, std::chrono::milliseconds patience)
    : store_(store), patience_(patience) {
  Publish(rank, -1);
}

void StoreBoard::Publish(int rank, int64_t beat) {
  const std::string text = std::to_string(beat);
  store_.Call(patience_, [key = BeatKey(rank), text](c10d::Store& store) {
    store.set(key, std::vector<uint8_t>(text.begin(), text.end()));
    return std::string();
  });
}

int64_t StoreBoard::Read(int rank) {
  // One round trip, and no waiting for a key that is not there yet as get() would.
  return std::stoll(store_.Call(patience_, [key = BeatKey(rank)](c10d::Store& store) {
    return SetIfEmpty(store, key, "-1");
  }));
}

void StoreBoard::DeclareFailure(const std::string& message) {
  store_.Call(patience_,
              [message](c10d::Store& store) { return SetIfEmpty(store, kFailureKey, message); });
}

std::string StoreBoard::FirstFailure() {
  return store_.Call(patience_,
                     [](c10d::Store& store) { return SetIfEmpty(store, kFailureKey, ""); });
}

}  // namespace thinwire::adapter
