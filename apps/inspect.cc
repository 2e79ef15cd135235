#include "apps/inspect.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "apps/inspect_gguf.h"
#include "apps/machine.h"
#include "apps/table.h"
#include "thinwire/base/checked.h"
#include "thinwire/base/error.h"
#include "thinwire/io/atomic_directory.h"
#include "thinwire/io/gguf_format.h"
#include "thinwire/io/safetensors.h"
#include "thinwire/zero/checkpoint.h"

namespace thinwire::app {
namespace {

using Json = nlohmann::json;
void InspectSafetensors(io::FileSystem& fs, const std::string& path, std::ostream& out) {
  const io::SafetensorsFile file(fs, path);
  int64_t bytes = 0, elements = 0;
  std::vector<Row> rows;
  for (const io::TensorInfo& tensor : file.tensors()) {
    bytes += tensor.bytes;
    elements += tensor.bytes / SizeOf(tensor.type);
    rows.push_back({Safe(tensor.name), std::string(NameOf(tensor.type)), Json(tensor.shape).dump(),
                    HumanBytes(tensor.bytes)});
  }
  out << path << ": safetensors, " << rows.size() << " tensors, " << elements << " elements, "
      << HumanBytes(bytes) << '\n';
  if (!file.metadata().empty()) out << "metadata\n";
  for (const auto& [key, value] : file.metadata()) {
    out << "  " << Safe(key) << " = " << Safe(value) << '\n';
  }
  out << "tensors\n";
  PrintTable(rows, out);
}

// By its name or by what it begins with: a malformed one shall be called a malformed GGUF file.
bool IsGguf(io::FileSystem& fs, const std::string& path) {
  if (path.ends_with(".gguf")) return true;
  const io::File file(fs, path, io::OpenMode::kRead);
  std::array<char, io::kGgufMagic.size()> magic{};
  if (file.Size() < static_cast<int64_t>(magic.size())) return false;
  file.ReadAt(0, std::as_writable_bytes(std::span(magic)));
  return std::string_view(magic.data(), magic.size()) == io::kGgufMagic;
}

void InspectCheckpoint(io::FileSystem& fs, const std::string& path, bool verify,
                       std::ostream& out) {
  const zero::Checkpoint checkpoint(fs, path);
  if (verify) checkpoint.Verify();
  int64_t bytes = 0, elements = 0;
  std::vector<Row> files, parameters;
  for (const io::FileRecord& file : checkpoint.files()) {
    bytes = CheckedAdd(bytes, file.bytes, path);
    std::ostringstream sum;
    sum << "crc32c " << std::hex << std::setfill('0') << std::setw(8) << file.crc32c;
    files.push_back({Safe(file.name), HumanBytes(file.bytes), sum.str()});
  }
  std::vector<int64_t> pieces(checkpoint.parameters().size());
  for (const zero::Checkpoint::Piece& piece : checkpoint.pieces()) ++pieces[piece.parameter];
  for (size_t i = 0; i < pieces.size(); ++i) {
    const zero::ParameterSpec& spec = checkpoint.parameters()[i];
    elements = CheckedAdd(elements, CheckedNumel(spec.shape, Safe(spec.name)), path);
    parameters.push_back({Safe(spec.name), Json(spec.shape).dump(),
                          StrCat(pieces[i], pieces[i] == 1 ? " piece" : " pieces")});
  }
  out << path << ": thinwire checkpoint of step " << checkpoint.step() << ", saved by "
      << checkpoint.hosts() << " hosts x " << checkpoint.ranks_per_host() << " ranks, "
      << HumanBytes(bytes) << '\n';
  out << (verify ? "files, all as their checksums say\n" : "files\n");
  PrintTable(files, out);
  out << "parameters, " << elements << " elements, each with fp32 master, m and v\n";
  PrintTable(parameters, out);
  if (!checkpoint.extra().empty()) {
    out << "extra\n"
        << checkpoint.extra().dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  }
}

void InspectDirectory(io::FileSystem& fs, const std::string& path, bool verify, std::ostream& out) {
  const auto survey = io::AtomicDirectory(fs, path).Look();
  if (survey.complete.empty()) {
    throw UsageError(StrCat(path, ": no complete checkpoint (step-N with a manifest.json) in it",
                            survey.ignored.empty() ? "" : "; " + survey.ignored.front()));
  }
  out << path << ": " << survey.complete.size() << " complete checkpoints\n";
  for (const auto& found : survey.complete) out << "  step " << found.step << '\n';
  for (const std::string& reason : survey.ignored) out << "  ignored: " << Safe(reason) << '\n';
  out << '\n';
  InspectCheckpoint(fs, survey.complete.front().path, verify, out);
}

}  // namespace

void Inspect(io::FileSystem& fs, const std::string& path, bool verify, std::ostream& out) {
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  if (!io::IsDirectory(fs, trimmed)) {
    return IsGguf(fs, trimmed) ? InspectGguf(trimmed, out) : InspectSafetensors(fs, trimmed, out);
  }
  const std::vector<std::string> names = io::ListDirectory(fs, trimmed);
  const bool one = std::binary_search(names.begin(), names.end(), io::AtomicDirectory::kManifest);
  if (one) return InspectCheckpoint(fs, trimmed, verify, out);
  InspectDirectory(fs, trimmed, verify, out);
}

}  // namespace thinwire::app
