// What the slow reduce of each rank still owes (error feedback), in the rank's own file of a
// checkpoint: a tensor U8
//     debt/<unit>
// for each unit, as it lies in memory, and in the file's metadata
//     debts     {"layout": text, "crc32c": {unit: sum}}
// What is owed depends on who sends what to whom, so it is of use only to the rank that wrote it
// and in the layout that it names: the same hosts, ranks, units, codecs, rotation and chunks. A run
// that resumes otherwise begins without debts, which costs it the rounding of one step.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "thinwire/io/safetensors.h"
#include "thinwire/io/together.h"
#include "thinwire/zero/engine.h"
#include "thinwire/zero/unit.h"

namespace thinwire::zero {

// Adds what is owed to what the rank writes.
void AddDebts(const std::vector<UnitSpec>& units, const Debts& debts,
              std::vector<io::TensorToWrite>& tensors,
              std::map<std::string, std::string>& metadata);

// Fills what is owed from the checkpoint in `directory`, or sets it to zero where nothing was saved
// of this layout: false. Throws UsageError where what was saved is damaged.
bool LoadDebts(io::FileSystem& fs, const std::string& directory, int rank,
               const std::vector<UnitSpec>& units, const Debts& debts);

// By every rank, or an error on every rank. True when all ranks found theirs.
bool LoadDebtsOfAll(io::FileSystem& fs, const std::string& directory, int rank,
                    const std::vector<UnitSpec>& units, const Debts& debts,
                    const io::AllAgree& all_agree);

// What to say where they did not.
constexpr const char* kWithoutDebts =
    "what the slow reduce owed (saved by other ranks, of other units or with another recipe, or "
    "not at all, as between a backward and its step)";

}  // namespace thinwire::zero
