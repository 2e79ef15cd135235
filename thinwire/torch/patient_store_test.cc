#include "thinwire/torch/patient_store.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "thinwire/base/error.h"
#include "thinwire/torch/store_board.h"

namespace thinwire::adapter {
namespace {

using std::chrono::milliseconds;

std::unique_ptr<PatientStore> OverMemory() {
  return std::make_unique<PatientStore>(c10::make_intrusive<c10d::HashStore>(), "rank 1",
                                        "the store");
}

std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const PeerError& error) {
    return error.what();
  }
  return "no PeerError";
}

TEST(PatientStore, GivesUpOnACallThatDoesNotReturn) {
  auto store = OverMemory();
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  const auto stuck = [released](c10d::Store&) {
    released.wait();
    return std::string();
  };
  EXPECT_EQ(ErrorOf([&] { store->Call(milliseconds(50), stuck); }),
            "rank 1 lost contact with the store: no answer for 0.05 s");
  // At once, not after another 10 s, and the thread that is stuck holds nobody up.
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(ErrorOf([&] { store->Call(milliseconds(10'000), stuck); }),
            "rank 1 lost contact with the store: no answer for 0.05 s");
  store.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(1000));
  release.set_value();
}

TEST(PatientStore, ACallThatFailsNamesTheReason) {
  const auto store = OverMemory();
  const auto fail = [](c10d::Store&) -> std::string {
    throw std::runtime_error(
        "[/gloo/pair.cc:5] Connection reset. This is typically a bug\nframe #0: f()");
  };
  EXPECT_EQ(ErrorOf([&] { store->Call(milliseconds(1000), fail); }),
            "rank 1 lost contact with the store: Connection reset");
}

TEST(StoreBoard, ShowsBeatsAndTheFirstFailure) {
  const auto store = OverMemory();
  StoreBoard board(*store, 1, milliseconds(1000));
  EXPECT_EQ(board.Read(0), -1);
  EXPECT_EQ(board.Read(1), -1);
  board.Publish(1, 12);
  EXPECT_EQ(board.Read(1), 12);
  EXPECT_EQ(board.FirstFailure(), "");
  board.DeclareFailure("rank 0 is silent");
  board.DeclareFailure("rank 1 lost contact");
  EXPECT_EQ(board.FirstFailure(), "rank 0 is silent");
}

}  // namespace
}  // namespace thinwire::adapter
