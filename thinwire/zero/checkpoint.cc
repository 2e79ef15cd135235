#include "thinwire/zero/checkpoint.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>

#include "thinwire/base/checked.h"
#include "thinwire/base/crc32c.h"
#include "thinwire/io/safetensors.h"
#include "thinwire/zero/checkpoint_format.h"

namespace thinwire::zero {
namespace {

using Json = nlohmann::json;

std::string ShapeText(const std::vector<int64_t>& shape) { return Json(shape).dump(); }

const Json& ListIn(const Json& object, const char* key, const std::string& what) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end() || !found->is_array()) {
    throw UsageError(StrCat(what, ": \"", key, "\" must be a list"));
  }
  return *found;
}

int SmallIntegerIn(const Json& object, const char* key, const std::string& what) {
  const int64_t value = io::IntegerIn(object, key, what);
  if (value < 1 || value > (1 << 20)) {
    throw UsageError(StrCat(what, ": \"", key, "\" = ", value, " is out of range"));
  }
  return static_cast<int>(value);
}

std::string TextOf(const OptimizerIdentity& optimizer) {
  std::string states;
  for (const std::string& state : optimizer.states) {
    states += StrCat(states.empty() ? "" : ", ", state);
  }
  return StrCat(optimizer.name, " (", states.empty() ? "no state" : states, ")");
}

void RequireFile(io::FileSystem& fs, const std::string& path) {
  const int file = fs.Open(path, io::OpenMode::kRead);
  if (file == -ENOENT) {
    throw UsageError(StrCat(path, ": listed in the manifest, but not there; is the checkpoint ",
                            "directory on a file system that all hosts share?"));
  }
  if (file >= 0) fs.Close(file);
}

}  // namespace

class Checkpoint::Files {
 public:
  explicit Files(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  // All of one kind of a piece, checked.
  void Read(const Piece& piece, size_t kind, std::span<float> to) {
    const io::SafetensorsFile& file = Get(piece.file);
    const std::string& parameter = checkpoint_.parameters_[piece.parameter].name;
    const std::string name = TensorName(parameter, checkpoint_.KindName(kind), piece.offset);
    const io::TensorInfo* tensor = file.Find(name);
    if (tensor == nullptr || tensor->type != io::TensorType::kF32 ||
        tensor->shape != std::vector<int64_t>{piece.elements}) {
      throw UsageError(StrCat(file.path(), ": tensor \"", name, "\" of ", piece.elements,
                              " F32 expected, found ",
                              tensor == nullptr ? "none" : ShapeText(tensor->shape)));
    }
    file.Read(*tensor, 0, std::as_writable_bytes(to));
    const uint32_t sum = Crc32c(std::as_bytes(to));
    if (sum != piece.crc32c[kind]) {
      throw UsageError(StrCat(file.path(), ": tensor \"", name, "\" has checksum ", sum, ", the ",
                              "manifest says ", piece.crc32c[kind],
                              "; the file is damaged, resume from another checkpoint"));
    }
  }

 private:
  const io::SafetensorsFile& Get(size_t index) {
    std::unique_ptr<io::SafetensorsFile>& file = open_[index];
    if (!file) {
      const std::string path = checkpoint_.directory_ + "/" + checkpoint_.files_[index].name;
      RequireFile(checkpoint_.fs_, path);
      file = std::make_unique<io::SafetensorsFile>(checkpoint_.fs_, path);
    }
    return *file;
  }

  const Checkpoint& checkpoint_;
  std::map<size_t, std::unique_ptr<io::SafetensorsFile>> open_;
};

Checkpoint::Checkpoint(io::FileSystem& fs, std::string directory)
    : fs_(fs), directory_(std::move(directory)) {
  const Json manifest = io::ReadManifest(fs, directory_);
  if (manifest.value("format", Json()) != kFormat) {
    throw UsageError(StrCat(Label(), ": not a ", kFormat));
  }
  const int64_t version = io::IntegerIn(manifest, "version", Label());
  if (version < 1 || version > kVersion) {
    throw UsageError(StrCat(Label(), ": format version ", version, ", this thinwire reads 1 to ",
                            kVersion, "; use the thinwire that wrote it"));
  }
  if (version == 1) {
    optimizer_ = {"AdamW", {"m", "v"}};
  } else {
    ReadOptimizer(manifest);
  }
  step_ = io::IntegerIn(manifest, "step", Label());
  hosts_ = SmallIntegerIn(manifest, "hosts", Label());
  ranks_per_host_ = SmallIntegerIn(manifest, "ranks_per_host", Label());
  files_ = io::FilesOf(manifest, directory_);
  ReadParameters(manifest);
  ReadPieces(manifest);
  extra_ = manifest.value("extra", Json::object());
}

void Checkpoint::ReadOptimizer(const Json& manifest) {
  const auto found = manifest.find("optimizer");
  const Json saved = found == manifest.end() ? Json() : *found;
  const std::string what = StrCat(Label(), ": \"optimizer\"");
  const Json& states = ListIn(saved, "states", what);
  if (!saved.value("name", Json()).is_string() || states.size() > optim::kMostStates) {
    throw UsageError(StrCat(what, " must have a name and at most ", optim::kMostStates, " states"));
  }
  optimizer_.name = saved["name"].get<std::string>();
  for (const Json& state : states) {
    if (!state.is_string() || state == kMaster) {
      throw UsageError(StrCat(what, ": ", state.dump(), " is no name of a state"));
    }
    optimizer_.states.push_back(state.get<std::string>());
  }
}

const char* Checkpoint::KindName(size_t kind) const {
  return kind == 0 ? kMaster : optimizer_.states[kind - 1].c_str();
}

void Checkpoint::ReadParameters(const Json& manifest) {
  for (const Json& entry : ListIn(manifest, "parameters", Label())) {
    const auto name = entry.is_object() ? entry.find("name") : entry.end();
    if (name == entry.end() || !name->is_string()) {
      throw UsageError(StrCat(Label(), ": a parameter has no name"));
    }
    ParameterSpec spec{name->get<std::string>(), {}};
    const std::string what = StrCat(Label(), ": parameter ", name->dump());
    for (const Json& extent : ListIn(entry, "shape", what)) {
      if (!extent.is_number_unsigned()) throw UsageError(StrCat(what, ": shape must be integers"));
      spec.shape.push_back(extent.get<int64_t>());
    }
    CheckedNumel(spec.shape, what);
    if (!index_.emplace(spec.name, parameters_.size()).second) {
      throw UsageError(StrCat(what, ": named twice"));
    }
    parameters_.push_back(std::move(spec));
  }
}

void Checkpoint::ReadPieces(const Json& manifest) {
  for (const Json& entry : ListIn(manifest, "pieces", Label())) {
    const int64_t parameter = io::IntegerIn(entry, "parameter", Label());
    const int64_t file = io::IntegerIn(entry, "file", Label());
    if (parameter >= std::ssize(parameters_) || file >= std::ssize(files_)) {
      throw UsageError(StrCat(Label(), ": a piece of parameter ", parameter, " in file ", file,
                              ", but there are ", parameters_.size(), " and ", files_.size()));
    }
    Piece piece{static_cast<size_t>(parameter), io::IntegerIn(entry, "offset", Label()),
                io::IntegerIn(entry, "elements", Label()), static_cast<size_t>(file)};
    const Json& sums = ListIn(entry, "crc32c", Label());
    const size_t all_kinds = 1 + optimizer_.states.size();
    piece.kinds = sums.size();
    if (piece.kinds != 1 && piece.kinds != all_kinds) {
      throw UsageError(StrCat(Label(), ": crc32c of a piece must be 1 or ", all_kinds,
                              " integers, of the weights and the optimizer's states"));
    }
    for (size_t kind = 0; kind < piece.kinds; ++kind) {
      if (!sums[kind].is_number_unsigned()) {
        throw UsageError(StrCat(Label(), ": crc32c of a piece must be integers"));
      }
      piece.crc32c[kind] = sums[kind].get<uint32_t>();
    }
    if (piece.elements < 1 || piece.elements > kMaxPiece) {
      throw UsageError(StrCat(Label(), ": a piece of ", piece.elements, " elements, 1 to ",
                              kMaxPiece, " expected"));
    }
    pieces_.push_back(piece);
  }
  std::sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
    return std::pair(a.parameter, a.offset) < std::pair(b.parameter, b.offset);
  });
  auto piece = pieces_.begin();
  for (size_t parameter = 0; parameter < parameters_.size(); ++parameter) {
    const ParameterSpec& spec = parameters_[parameter];
    int64_t end = 0;
    for (; piece != pieces_.end() && piece->parameter == parameter && piece->offset == end;
         ++piece) {
      end = CheckedAdd(piece->offset, piece->elements, Label());
    }
    const int64_t numel = CheckedNumel(spec.shape, spec.name);
    if (end != numel || (piece != pieces_.end() && piece->parameter == parameter)) {
      throw UsageError(StrCat(Label(), ": the pieces of parameter ", Json(spec.name).dump(),
                              " do not cover its ", numel, " elements once (first at ", end, ")"));
    }
  }
}

size_t Checkpoint::IndexOf(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? parameters_.size() : found->second;
}

std::span<const Checkpoint::Piece> Checkpoint::Intersecting(size_t parameter, int64_t begin,
                                                            int64_t end) const {
  if (begin >= end) return {};
  const auto first = std::partition_point(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
    return piece.parameter < parameter || (piece.parameter == parameter && piece.end() <= begin);
  });
  const auto last = std::partition_point(first, pieces_.end(), [&](const Piece& piece) {
    return piece.parameter == parameter && piece.offset < end;
  });
  return {first, last};
}

void Checkpoint::CheckModel(const LoadTarget& target) const {
  size_t wanted = 0;
  const std::string_view remedy = "; use the model that was saved";
  const std::string_view strict =
      "; use the model that was saved, or load_module_strict=False: then parameters that were not "
      "saved, as frozen ones may not be, keep their values";
  for (const UnitSpec& unit : target.units) {
    for (const ParameterSpec& spec : unit.parameters) {
      const size_t index = IndexOf(spec.name);
      const bool known = index < parameters_.size();
      if (!known && target.partial) continue;
      if (!known || parameters_[index].shape != spec.shape) {
        throw UsageError(StrCat(directory_, ": parameter ", spec.name, ": the model wants shape ",
                                ShapeText(spec.shape), ", the checkpoint has ",
                                known ? ShapeText(parameters_[index].shape) : "no such parameter",
                                known ? remedy : strict));
      }
      ++wanted;
    }
  }
  if (wanted != parameters_.size() && !target.partial) {
    throw UsageError(StrCat(directory_, ": ", parameters_.size(),
                            " parameters saved, the model has ", wanted, strict));
  }
}

void Checkpoint::Load(const LoadTarget& target) const {
  CheckModel(target);
  if (!target.masters_only && target.optimizer != optimizer_) {
    throw UsageError(StrCat(directory_, ": saved with ", TextOf(optimizer_), ", this run has ",
                            TextOf(target.optimizer),
                            ": take the optimizer that was saved, or load the weights alone"));
  }
  Files files(*this);
  std::vector<float> whole;
  for (const OwnedStretch& stretch : target.owned) {
    const ParameterSpec& spec = target.units.at(static_cast<size_t>(stretch.unit))
                                    .parameters.at(static_cast<size_t>(stretch.parameter));
    std::vector<std::span<float>> kinds{stretch.master};
    for (const std::span<float> state : stretch.states) {
      if (state.empty()) continue;
      std::ranges::fill(state, 0.0f);
      if (!target.masters_only) kinds.push_back(state);
    }
    const int64_t end = stretch.offset + std::ssize(stretch.master);
    for (const Piece& piece : Intersecting(IndexOf(spec.name), stretch.offset, end)) {
      if (kinds.size() > piece.kinds) {
        throw UsageError(StrCat(directory_, ": parameter ", spec.name,
                                " is trained and was frozen "
                                "when saved: freeze it again, or load the weights alone"));
      }
      const int64_t from = std::max(piece.offset, stretch.offset);
      const size_t count = static_cast<size_t>(std::min(piece.end(), end) - from);
      for (size_t kind = 0; kind < kinds.size(); ++kind) {
        const auto to = kinds[kind].subspan(static_cast<size_t>(from - stretch.offset), count);
        if (count == static_cast<size_t>(piece.elements)) {
          files.Read(piece, kind, to);
          continue;
        }
        whole.resize(static_cast<size_t>(piece.elements));
        files.Read(piece, kind, whole);
        std::copy_n(whole.begin() + (from - piece.offset), count, to.begin());
      }
    }
  }
}

std::vector<float> Checkpoint::LoadFullParameter(const std::string& name) const {
  const size_t index = IndexOf(name);
  if (index == parameters_.size()) {
    throw UsageError(StrCat(directory_, ": no parameter ", name, "; use the model that was saved"));
  }
  const int64_t numel = CheckedNumel(parameters_[index].shape, name);
  std::vector<float> values(static_cast<size_t>(numel));
  Files files(*this);
  for (const Piece& piece : Intersecting(index, 0, numel)) {
    files.Read(piece, 0,
               std::span(values).subspan(static_cast<size_t>(piece.offset),
                                         static_cast<size_t>(piece.elements)));
  }
  return values;
}

void Checkpoint::Verify() const {
  std::vector<std::byte> chunk(4 << 20);
  for (const io::FileRecord& record : files_) {
    const std::string path = directory_ + "/" + record.name;
    RequireFile(fs_, path);
    const io::File file(fs_, path, io::OpenMode::kRead);
    if (file.Size() != record.bytes) {
      throw UsageError(StrCat(path, ": ", record.bytes, " bytes expected, found ", file.Size()));
    }
    uint32_t sum = 0;
    for (int64_t at = 0; at < record.bytes; at += std::ssize(chunk)) {
      const auto part = std::span(chunk).first(
          static_cast<size_t>(std::min(std::ssize(chunk), record.bytes - at)));
      file.ReadAt(at, part);
      sum = Crc32c(part, sum);
    }
    if (sum != record.crc32c) {
      throw UsageError(StrCat(path, ": checksum ", sum, ", the manifest says ", record.crc32c,
                              "; the file is damaged"));
    }
  }
}

OptimizerIdentity IdentityOf(const optim::Optimizer& optimizer) {
  OptimizerIdentity identity{std::string(optimizer.name()), {}};
  for (const std::string_view state : optimizer.states()) identity.states.emplace_back(state);
  return identity;
}

Checkpoint LoadCheckpoint(io::FileSystem& fs, const std::string& directory,
                          const LoadTarget& target, const io::AllAgree& all_agree) {
  std::optional<Checkpoint> checkpoint;
  io::Together(all_agree, "loading " + directory, [&] {
    checkpoint.emplace(fs, directory);
    checkpoint->Load(target);
  });
  return std::move(*checkpoint);
}

}  // namespace thinwire::zero
