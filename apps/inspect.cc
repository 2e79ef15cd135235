#include "apps/inspect.h"

#include <algorithm>
#include <cerrno>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "apps/machine.h"
#include "thinwire/base/checked.h"
#include "thinwire/base/error.h"
#include "thinwire/io/atomic_directory.h"
#include "thinwire/io/safetensors.h"
#include "thinwire/zero/checkpoint.h"

namespace thinwire::app {
namespace {

using Json = nlohmann::json;
using Row = std::vector<std::string>;

// Text from a file, on one line and without control characters for the terminal.
std::string Safe(const std::string& text) {
  const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

// Two spaces before the first column and between columns, each as wide as its widest cell.
void PrintTable(const std::vector<Row>& rows, std::ostream& out) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      out << "  " << std::left << std::setw(last ? 0 : static_cast<int>(widths[i])) << row[i];
    }
    out << '\n';
  }
}

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
  if (!io::IsDirectory(fs, trimmed)) return InspectSafetensors(fs, trimmed, out);
  const std::vector<std::string> names = io::ListDirectory(fs, trimmed);
  const bool one = std::binary_search(names.begin(), names.end(), io::AtomicDirectory::kManifest);
  if (one) return InspectCheckpoint(fs, trimmed, verify, out);
  InspectDirectory(fs, trimmed, verify, out);
}

}  // namespace thinwire::app
