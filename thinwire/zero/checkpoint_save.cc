#include <algorithm>

#include "thinwire/base/checked.h"
#include "thinwire/base/crc32c.h"
#include "thinwire/io/safetensors.h"
#include "thinwire/zero/checkpoint.h"
#include "thinwire/zero/checkpoint_debts.h"
#include "thinwire/zero/checkpoint_format.h"

namespace thinwire::zero {
namespace {

using Json = nlohmann::json;

const ParameterSpec& SpecOf(const CheckpointContent& content, const OwnedStretch& stretch) {
  return content.units.at(static_cast<size_t>(stretch.unit))
      .parameters.at(static_cast<size_t>(stretch.parameter));
}

// Index of a unit's first parameter in the manifest's list.
std::vector<size_t> FirstParameters(const std::vector<UnitSpec>& units) {
  std::vector<size_t> first;
  size_t count = 0;
  for (const UnitSpec& unit : units) {
    first.push_back(count);
    count += unit.parameters.size();
  }
  return first;
}

io::AtomicDirectory::Share WriteRank(io::FileSystem& fs, const std::string& directory,
                                     const io::Saver& saver, const CheckpointContent& content) {
  const std::vector<size_t> first = FirstParameters(content.units);
  std::vector<io::TensorToWrite> tensors;
  Json pieces = Json::array();
  for (const OwnedStretch& stretch : content.owned) {
    const ParameterSpec& spec = SpecOf(content, stretch);
    const size_t size = stretch.master.size();
    std::vector<std::string> names{kMaster};
    std::vector<std::span<const float>> kinds{stretch.master};
    for (size_t s = 0; s < stretch.states.size() && !stretch.states[s].empty(); ++s) {
      THINWIRE_CHECK(s < content.optimizer.states.size() && stretch.states[s].size() == size,
                     spec.name, " with state ", s, " of ", content.optimizer.name);
      names.push_back(content.optimizer.states[s]);
      kinds.push_back(stretch.states[s]);
    }
    THINWIRE_CHECK(kinds.size() == 1 || kinds.size() == 1 + content.optimizer.states.size(),
                   spec.name, " with ", kinds.size() - 1, " states");
    for (size_t begin = 0; begin < size; begin += kMaxPiece) {
      const size_t elements = std::min(size - begin, static_cast<size_t>(kMaxPiece));
      const int64_t offset = stretch.offset + static_cast<int64_t>(begin);
      Json sums = Json::array();
      for (size_t kind = 0; kind < kinds.size(); ++kind) {
        const auto bytes = std::as_bytes(kinds[kind].subspan(begin, elements));
        sums.push_back(Crc32c(bytes));
        tensors.push_back({TensorName(spec.name, names[kind], offset),
                           io::TensorType::kF32,
                           {static_cast<int64_t>(elements)},
                           bytes});
      }
      const size_t unit = static_cast<size_t>(stretch.unit);
      pieces.push_back({{"parameter", first[unit] + static_cast<size_t>(stretch.parameter)},
                        {"offset", offset},
                        {"elements", elements},
                        {"file", saver.rank},
                        {"crc32c", std::move(sums)}});
    }
  }
  const std::string name = RankFileName(saver.rank);
  std::map<std::string, std::string> metadata{
      {"format", kFormat}, {"step", StrCat(content.step)}, {"rank", StrCat(saver.rank)}};
  AddDebts(content.units, content.debts, tensors, metadata);
  const io::WrittenFile written =
      io::WriteSafetensors(fs, directory + "/" + name, std::move(tensors), metadata);
  return {{{name, written.bytes, written.crc32c}}, std::move(pieces)};
}

Json MakeManifest(const CheckpointContent& content, const std::vector<Json>& pieces_of_rank) {
  Json pieces = Json::array();
  for (const Json& pieces_here : pieces_of_rank) {
    pieces.insert(pieces.end(), pieces_here.begin(), pieces_here.end());
  }
  Json parameters = Json::array();
  for (const UnitSpec& unit : content.units) {
    for (const ParameterSpec& spec : unit.parameters) {
      parameters.push_back({{"name", spec.name}, {"shape", spec.shape}});
    }
  }
  return {{"format", kFormat},
          {"version", kVersion},
          {"hosts", content.hosts},
          {"ranks_per_host", content.ranks_per_host},
          {"world", content.hosts * content.ranks_per_host},
          {"optimizer", {{"name", content.optimizer.name}, {"states", content.optimizer.states}}},
          {"parameters", std::move(parameters)},
          {"pieces", std::move(pieces)},
          {"extra", content.extra}};
}

// A little more than the tensors of all ranks together.
int64_t BytesOfAllRanks(const CheckpointContent& content) {
  constexpr int64_t kHeaders = 1 << 20;
  int64_t bytes = kHeaders;
  // Debts of all ranks are as large, but for a grain.
  for (const std::span<std::byte> debt : content.debts.by_unit) {
    const int64_t world = int64_t{content.hosts} * content.ranks_per_host;
    bytes = CheckedAdd(bytes, CheckedMul(std::ssize(debt), world, "debts"), "debts");
  }
  for (const UnitSpec& unit : content.units) {
    for (const ParameterSpec& spec : unit.parameters) {
      const size_t kinds = 1 + (unit.trainable ? content.optimizer.states.size() : 0);
      const int64_t each = static_cast<int64_t>(kinds * sizeof(float));
      bytes = CheckedAdd(bytes, CheckedMul(CheckedNumel(spec.shape, spec.name), each, spec.name),
                         spec.name);
    }
  }
  return bytes;
}

}  // namespace

std::string SaveCheckpoint(const io::AtomicDirectory& root, const io::Saver& saver,
                           const CheckpointContent& content, std::string* warning) {
  THINWIRE_CHECK(content.hosts * content.ranks_per_host == saver.world, content.hosts, " x ",
                 content.ranks_per_host, " != ", saver.world);
  return root.Save(
      saver,
      {.step = content.step,
       .bytes = BytesOfAllRanks(content),
       .keep = content.keep,
       .write =
           [&](const std::string& directory) {
             return WriteRank(root.file_system(), directory, saver, content);
           },
       .manifest = [&](const std::vector<Json>& notes) { return MakeManifest(content, notes); }},
      warning);
}

}  // namespace thinwire::zero
