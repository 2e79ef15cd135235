#include "apps/quantize.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iomanip>
#include <map>
#include <optional>
#include <ostream>
#include <sstream>

#include "apps/importance.h"
#include "apps/table.h"
#include "apps/weight_converter.h"
#include "thinwire/base/cpu_features.h"
#include "thinwire/base/error.h"
#include "thinwire/infer/quantize_plan.h"
#include "thinwire/io/gguf.h"
#include "thinwire/io/gguf_writer.h"

namespace thinwire::app {
namespace {

constexpr int64_t kPieceElements = 1 << 21;  // decoded, encoded and written together, 8 MB of fp32

// What was written in one type.
struct Total {
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
  ConversionError error;
};

// The same file by another name, too.
void RequireOtherFile(const std::string& in, const std::string& out) {
  std::error_code none;
  if (in == out || std::filesystem::equivalent(in, out, none)) {
    throw UsageError(StrCat(out, ": is the file that is read: choose another name for OUT"));
  }
}

// The metadata of `file` with this file_type.
void CopyMetadata(const io::GgufFile& file, uint32_t file_type, io::GgufWriter& writer) {
  constexpr std::string_view kFileType = "general.file_type";
  constexpr std::string_view kVersion = "general.quantization_version";
  for (const io::GgufEntry& entry : file.entries()) {
    if (entry.key != kFileType && entry.key != kVersion) writer.Add(entry);
  }
  writer.Set<uint32_t>(kFileType, file_type);
  writer.Set<uint32_t>(kVersion, 2);  // of the block formats as they are since May 2023
}

std::string Fixed(double value, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << value;
  return text.str();
}

std::string Megabytes(int64_t bytes) { return Fixed(static_cast<double>(bytes) / 1e6, 1) + " MB"; }

struct Sums {
  int64_t elements = 0;
  int64_t bytes = 0;

  double bits() const {
    return elements == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
  }
};

class Quantizer {
 public:
  Quantizer(const io::GgufFile& file, const QuantizeRequest& request, std::ostream* progress)
      : file_(file),
        request_(request),
        plan_(infer::PlanQuantize(file.tensors(), request.recipe, request.tensors)),
        progress_(progress) {
    if (!request.importance.empty()) importances_.emplace(request.importance);
    for (size_t i = 0; i < file.tensors().size(); ++i) {
      const io::GgufTensor& tensor = file.tensors()[i];
      const int64_t elements = tensor.elements();
      Total& total = totals_[plan_.types[i]];
      ++total.tensors;
      total.elements += elements;
      total.bytes += WeightBytes(plan_.types[i], elements, tensor.name);
      before_.elements += elements;
      before_.bytes += static_cast<int64_t>(tensor.data.size());
    }
    after_.elements = before_.elements;
    for (const auto& [type, total] : totals_) after_.bytes += total.bytes;
  }

  void PrintNotes(std::ostream& out) const {
    for (const std::string& note : plan_.notes) out << note << '\n';
    if (importances_) PrintWithoutImportance(out);
  }

  void PrintTensors(std::ostream& out) const {
    std::vector<Row> rows = {{"tensor", "now", "then"}};
    for (size_t i = 0; i < file_.tensors().size(); ++i) {
      const io::GgufTensor& tensor = file_.tensors()[i];
      rows.push_back({Safe(tensor.name), std::string(NameOf(tensor.type)),
                      std::string(NameOf(plan_.types[i]))});
    }
    PrintTable(rows, out);
  }

  void Write(io::FileSystem& fs, int threads) {
    io::GgufWriter writer(fs, request_.out);
    CopyMetadata(file_, plan_.file_type, writer);
    for (size_t i = 0; i < file_.tensors().size(); ++i) {
      writer.Declare(file_.tensors()[i].name, plan_.types[i], file_.tensors()[i].shape());
    }
    writer.Begin();
    WeightConverter converter(threads);
    for (size_t i = 0; i < file_.tensors().size(); ++i) {
      const io::GgufTensor& tensor = file_.tensors()[i];
      ShowProgress(i);
      if (tensor.type == plan_.types[i]) {
        writer.Append(tensor.name, tensor.data);
      } else {
        const std::vector<float> importance = ImportanceOf(tensor);
        WriteConverted({tensor, plan_.types[i], importance}, converter, writer);
      }
      file_.Drop(tensor.data);
    }
    writer.Finish();
    if (progress_ != nullptr) *progress_ << "\r\x1b[K" << std::flush;
  }

  // The error is of what was encoded, over the root mean square of the weights.
  void PrintTotals(std::ostream& out) const {
    std::vector<Row> rows = {{"type", "tensors", "weights", "size", "relative error"}};
    for (const auto& [type, total] : totals_) {
      const double error = std::sqrt(total.error.missed / total.error.squares);
      rows.push_back({std::string(NameOf(type)), StrCat(total.tensors), StrCat(total.elements),
                      Megabytes(total.bytes),
                      total.error.squares > 0 ? Fixed(error, 5) : "copied"});
    }
    PrintTable(rows, out);
  }

  void PrintSizes(std::string_view what, std::ostream& out) const {
    out << what << ": " << Megabytes(after_.bytes) << " of weights, " << Fixed(after_.bits(), 2)
        << " bits per weight; before " << Megabytes(before_.bytes) << ", "
        << Fixed(before_.bits(), 2) << '\n';
  }

 private:
  // Checks, too, that the importances fit.
  void PrintWithoutImportance(std::ostream& out) const {
    int64_t without = 0;
    std::string_view first;
    for (size_t i = 0; i < file_.tensors().size(); ++i) {
      const io::GgufTensor& tensor = file_.tensors()[i];
      if (BlockElements(plan_.types[i]) == 1 || tensor.type == plan_.types[i]) continue;
      if (!ImportanceOf(tensor).empty()) continue;
      if (without++ == 0) first = tensor.name;
    }
    if (without == 0) return;
    out << first << (without > 1 ? StrCat(" and ", without - 1, " more") : std::string())
        << ": no importances, so all columns count alike\n";
  }

  std::vector<float> ImportanceOf(const io::GgufTensor& tensor) const {
    return importances_ ? importances_->Of(tensor) : std::vector<float>();
  }

  void WriteConverted(const Conversion& conversion, WeightConverter& converter,
                      io::GgufWriter& writer) {
    const io::GgufTensor& tensor = conversion.tensor;
    const int64_t rows = tensor.elements() / tensor.columns();
    const int64_t piece = std::max<int64_t>(1, kPieceElements / tensor.columns());
    for (int64_t first = 0; first < rows; first += piece) {
      const int64_t count = std::min(piece, rows - first);
      writer.Append(tensor.name,
                    converter.Convert(conversion, first, count, totals_.at(conversion.type).error));
    }
  }

  void ShowProgress(size_t tensor) {
    if (progress_ == nullptr) return;
    *progress_ << "\r\x1b[K[" << tensor + 1 << '/' << file_.tensors().size() << "] "
               << file_.tensors()[tensor].name << ' ' << NameOf(plan_.types[tensor]) << std::flush;
  }

  const io::GgufFile& file_;
  const QuantizeRequest& request_;
  const infer::QuantizePlan plan_;
  std::ostream* const progress_;
  std::optional<Importances> importances_;
  std::map<WeightType, Total> totals_;
  Sums before_;
  Sums after_;
};

int ThreadsFor(const QuantizeRequest& request) {
  return request.threads > 0 ? request.threads : UsableCores();
}

}  // namespace

void AddQuantizeOptions(CLI::App& command, QuantizeRequest& request) {
  command.add_option("IN", request.in, "The GGUF file to read")->required();
  command.add_option("OUT", request.out, "The GGUF file to write")->required();
  command.add_option("TYPE", request.recipe, StrCat("Type or mix: ", infer::QuantizeRecipes()))
      ->required();
  command
      .add_option("--tensor", request.tensors,
                  "PATTERN=TYPE: another type for tensors of that name, where * stands for any "
                  "text; may be given several times, the last one that fits counts")
      ->allow_extra_args(false);
  command.add_option(
      "--importance", request.importance,
      "A file of llama-imatrix: errors in columns with large activations count more");
  command.add_option("--threads", request.threads, "Default: one per core")
      ->check(CLI::Range(1, 1024));
  command.add_flag("--dry-run", request.dry_run, "Show what would be written, write nothing");
}

void Quantize(io::FileSystem& fs, const QuantizeRequest& request, std::ostream& out,
              std::ostream* progress) {
  if (!request.dry_run) RequireOtherFile(request.in, request.out);
  const io::GgufFile file(request.in);
  Quantizer quantizer(file, request, progress);
  quantizer.PrintNotes(out);
  if (request.dry_run) {
    quantizer.PrintTensors(out);
    quantizer.PrintSizes("would be written", out);
    return;
  }
  out.flush();
  const auto begin = std::chrono::steady_clock::now();
  quantizer.Write(fs, ThreadsFor(request));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  quantizer.PrintTotals(out);
  quantizer.PrintSizes(request.out, out);
  out << "took " << Fixed(took.count(), 1) << " s with " << ThreadsFor(request)
      << (ThreadsFor(request) == 1 ? " thread\n" : " threads\n");
}

}  // namespace thinwire::app
