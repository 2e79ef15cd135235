#include "thinwire/zero/checkpoint_debts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "thinwire/base/crc32c.h"
#include "thinwire/base/error.h"
#include "thinwire/zero/checkpoint_format.h"

namespace thinwire::zero {
namespace {

using Json = nlohmann::json;

constexpr const char* kDebts = "debts";

std::string DebtName(const UnitSpec& unit) { return StrCat("debt/", unit.name); }

// What the file says of its debts; null where it has none of this layout.
Json SumsOf(const io::SafetensorsFile& file, const std::string& layout) {
  const auto found = file.metadata().find(kDebts);
  if (found == file.metadata().end()) return nullptr;
  const Json debts = Json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  if (!debts.is_object() || debts.value("layout", Json()) != layout) return nullptr;
  return debts.value("crc32c", Json::object());
}

void LoadDebt(const io::SafetensorsFile& file, const UnitSpec& unit, const Json& sums,
              std::span<std::byte> debt) {
  const io::TensorInfo* tensor = file.Find(DebtName(unit));
  const std::vector<int64_t> shape{std::ssize(debt)};
  const Json sum = sums.is_object() ? sums.value(unit.name, Json()) : Json();
  bool good = tensor != nullptr && tensor->type == io::TensorType::kU8 && tensor->shape == shape;
  if (good) {
    file.Read(*tensor, 0, debt);
    good = sum.is_number_unsigned() && sum.get<uint32_t>() == Crc32c(debt);
  }
  if (!good) {
    throw UsageError(StrCat(file.path(), ": tensor \"", DebtName(unit), "\" is not the ",
                            debt.size(),
                            " bytes that were saved; the file is damaged, resume from "
                            "another checkpoint"));
  }
}

}  // namespace

void AddDebts(const std::vector<UnitSpec>& units, const Debts& debts,
              std::vector<io::TensorToWrite>& tensors,
              std::map<std::string, std::string>& metadata) {
  if (debts.layout.empty()) return;
  Json sums = Json::object();
  for (size_t u = 0; u < debts.by_unit.size(); ++u) {
    const std::span<std::byte> debt = debts.by_unit[u];
    if (debt.empty()) continue;
    tensors.push_back({DebtName(units[u]), io::TensorType::kU8, {std::ssize(debt)}, debt});
    sums[units[u].name] = Crc32c(debt);
  }
  metadata[kDebts] = Json{{"layout", debts.layout}, {"crc32c", sums}}.dump();
}

bool LoadDebts(io::FileSystem& fs, const std::string& directory, int rank,
               const std::vector<UnitSpec>& units, const Debts& debts) {
  debts.Forget();
  if (debts.layout.empty()) return true;
  const std::string name = RankFileName(rank);
  const std::vector<std::string> there = io::ListDirectory(fs, directory);
  if (std::ranges::find(there, name) == there.end()) return false;
  const io::SafetensorsFile file(fs, directory + "/" + name);
  const Json sums = SumsOf(file, debts.layout);
  if (sums.is_null()) return false;
  for (size_t u = 0; u < debts.by_unit.size(); ++u) {
    if (!debts.by_unit[u].empty()) LoadDebt(file, units[u], sums, debts.by_unit[u]);
  }
  return true;
}

bool LoadDebtsOfAll(io::FileSystem& fs, const std::string& directory, int rank,
                    const std::vector<UnitSpec>& units, const Debts& debts,
                    const io::AllAgree& all_agree) {
  if (debts.layout.empty()) return true;
  bool found = false;
  io::Together(all_agree, "loading " + directory,
               [&] { found = LoadDebts(fs, directory, rank, units, debts); });
  // Debts of some ranks alone are of no harm, but not what was saved either.
  if (all_agree(found)) return true;
  debts.Forget();
  return false;
}

}  // namespace thinwire::zero
