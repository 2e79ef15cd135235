#include "thinwire/zero/pass_programs.h"

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"

namespace thinwire::zero {

PassProgram::PassProgram(Board& board, Program compiled)
    : program(std::move(compiled)),
      gathers(program.gathers.size()),
      reduces(program.reduces.size()) {
  using Kind = UnitOperation::Kind;
  uint64_t seed = program.fingerprint;
  for (const Operation& entry : program.order) {
    const size_t index = static_cast<size_t>(entry.index);
    seed = Mix64(seed);
    if (entry.gather) {
      const GatherStep& gather = program.gathers[index];
      gathers[index] = &list.Add(board,
                                 {.kind = Kind::kGather,
                                  .unit = gather.unit,
                                  .buffer = gather.buffer,
                                  .after_event = gather.after_event},
                                 seed);
    } else {
      reduces[index] = &list.Add(board,
                                 {.kind = Kind::kReduce,
                                  .unit = program.reduces[index],
                                  .staging = entry.index % kStagingBuffers},
                                 seed);
    }
  }
  list.Link();
}

PassPrograms::Entry* PassPrograms::Find(const PassProgram* pass) {
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.pass.get() == pass; });
  return found == entries_.end() ? nullptr : &*found;
}

PassProgram* PassPrograms::Expected() const {
  for (const Entry& entry : entries_) {
    if (entry.pass.get() == last_ && entry.followed_by != nullptr) return entry.followed_by;
  }
  return last_;
}

void PassPrograms::Used(PassProgram& program) {
  if (Entry* last = Find(last_)) last->followed_by = &program;
  last_ = &program;
  Find(last_)->used = ++uses_;
}

PassProgram& PassPrograms::Keep(Board& board, Program program) {
  for (Entry& entry : entries_) {
    if (entry.pass->program.fingerprint == program.fingerprint) return *entry.pass;
  }
  if (entries_.size() == kMost) {
    const auto oldest = std::ranges::min_element(entries_, {}, &Entry::used);
    for (Entry& entry : entries_) {
      if (entry.followed_by == oldest->pass.get()) entry.followed_by = nullptr;
    }
    THINWIRE_CHECK(oldest->pass.get() != last_);
    entries_.erase(oldest);
  }
  entries_.push_back({std::make_unique<PassProgram>(board, std::move(program))});
  return *entries_.back().pass;
}

}  // namespace thinwire::zero
