// The compiled programs of one kind of pass. All ranks keep the same ones: each is added, used and
// given up at agreed points.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "thinwire/zero/operation.h"
#include "thinwire/zero/program.h"

namespace thinwire::zero {

// A program with the operations that carry it out.
struct PassProgram {
  Program program;
  OperationList list;
  std::vector<UnitOperation*> gathers;  // as program.gathers; units of one gather share it
  std::vector<UnitOperation*> reduces;  // as program.reduces

  PassProgram(Board& board, Program compiled);
};

class PassPrograms {
 public:
  // A model has few: with and without checkpointing, a module left out, two parts in turn.
  static constexpr size_t kMost = 4;

  // The one that the next pass is expected to follow, or null: what followed the last one the last
  // time, so that passes that alternate are foreseen.
  PassProgram* Expected() const;
  // Tells that a pass has followed `program`.
  void Used(PassProgram& program);
  // The one for this program; a new one takes the place of the one unused for longest. Nothing of
  // the programs may be under way.
  PassProgram& Keep(Board& board, Program program);

 private:
  struct Entry {
    std::unique_ptr<PassProgram> pass;
    PassProgram* followed_by = nullptr;
    int64_t used = 0;  // when
  };
  Entry* Find(const PassProgram* pass);

  std::vector<Entry> entries_;
  PassProgram* last_ = nullptr;
  int64_t uses_ = 0;
};

}  // namespace thinwire::zero
