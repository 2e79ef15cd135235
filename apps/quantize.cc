#include "apps/quantize.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <iomanip>
#include <map>
#include <mutex>
#include <ostream>
#include <sstream>
#include <thread>

#include "apps/quantize_plan.h"
#include "apps/table.h"
#include "thinwire/base/checked.h"
#include "thinwire/base/error.h"
#include "thinwire/base/thread_team.h"
#include "thinwire/blocks/decode.h"
#include "thinwire/blocks/encode.h"
#include "thinwire/io/gguf.h"
#include "thinwire/io/gguf_writer.h"

namespace thinwire::app {
namespace {

constexpr int64_t kPieceElements = 1 << 21;  // decoded, encoded and written together, 8 MB of fp32
constexpr int64_t kGrainElements = 1 << 15;  // by one thread at a time

// What was written in one type.
struct Total {
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
  double missed = 0;  // sum of squared errors of what was encoded
  double squares = 0;

  void Add(double square, double miss) {
    squares += square;
    missed += miss;
  }
};

// Converts pieces of tensors in all threads.
class Converter {
 public:
  explicit Converter(int threads) : team_(threads), scratch_(static_cast<size_t>(threads)) {}

  int threads() const { return team_.threads(); }

  // `rows` rows from `first` on, in `type`. The span lives until the next call.
  std::span<const std::byte> Convert(const io::GgufTensor& tensor, WeightType type, int64_t first,
                                     int64_t rows, Total& total) {
    const int64_t columns = tensor.columns();
    const int64_t row_bytes = WeightBytes(type, columns, tensor.name);
    out_.resize(static_cast<size_t>(CheckedMul(rows, row_bytes, tensor.name)));
    const int64_t grain = std::max<int64_t>(1, kGrainElements / columns);
    std::exception_ptr failure;
    team_.Run(rows, grain, [&](int64_t begin, int64_t end, int thread) noexcept {
      try {
        const std::span<std::byte> out = std::span(out_).subspan(
            static_cast<size_t>(begin * row_bytes), static_cast<size_t>((end - begin) * row_bytes));
        ConvertRows(tensor, type, first + begin, first + end, out,
                    scratch_[static_cast<size_t>(thread)], total);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (failure == nullptr) failure = std::current_exception();
      }
    });
    if (failure != nullptr) std::rethrow_exception(failure);
    return out_;
  }

 private:
  struct Scratch {
    std::vector<float> values;
    std::vector<float> decoded;
  };

  void ConvertRows(const io::GgufTensor& tensor, WeightType type, int64_t begin, int64_t end,
                   std::span<std::byte> out, Scratch& scratch, Total& total) {
    const int64_t columns = tensor.columns();
    const auto elements = static_cast<size_t>((end - begin) * columns);
    const int64_t in_row = WeightBytes(tensor.type, columns, tensor.name);
    scratch.values.resize(elements);
    blocks::Decode(context_, tensor.type,
                   tensor.data.subspan(static_cast<size_t>(begin * in_row),
                                       static_cast<size_t>((end - begin) * in_row)),
                   scratch.values);
    blocks::Encode(
        context_, type,
        {.values = scratch.values, .columns = columns, .name = tensor.name, .first_row = begin},
        out);
    scratch.decoded.resize(elements);
    blocks::Decode(context_, type, out, scratch.decoded);
    double squares = 0;
    double missed = 0;
    for (size_t i = 0; i < elements; ++i) {
      const double value = double{scratch.values[i]};
      const double miss = value - double{scratch.decoded[i]};
      squares += value * value;
      missed += miss * miss;
    }
    const std::lock_guard lock(mutex_);
    total.Add(squares, missed);
  }

  const ExecContext context_;
  ThreadTeam team_;
  std::vector<Scratch> scratch_;  // of each thread
  std::vector<std::byte> out_;
  std::mutex mutex_;
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
        plan_(PlanQuantize(file.tensors(), request.recipe, request.tensors)),
        progress_(progress) {
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
    Converter converter(threads);
    for (size_t i = 0; i < file_.tensors().size(); ++i) {
      const io::GgufTensor& tensor = file_.tensors()[i];
      ShowProgress(i);
      if (tensor.type == plan_.types[i]) {
        writer.Append(tensor.name, tensor.data);
      } else {
        WriteConverted(tensor, plan_.types[i], converter, writer);
      }
      file_.Drop(tensor);
    }
    writer.Finish();
    if (progress_ != nullptr) *progress_ << "\r\x1b[K" << std::flush;
  }

  // The error is of what was encoded, over the root mean square of the weights.
  void PrintTotals(std::ostream& out) const {
    std::vector<Row> rows = {{"type", "tensors", "weights", "size", "relative error"}};
    for (const auto& [type, total] : totals_) {
      const double error = std::sqrt(total.missed / total.squares);
      rows.push_back({std::string(NameOf(type)), StrCat(total.tensors), StrCat(total.elements),
                      Megabytes(total.bytes), total.squares > 0 ? Fixed(error, 5) : "copied"});
    }
    PrintTable(rows, out);
  }

  void PrintSizes(std::string_view what, std::ostream& out) const {
    out << what << ": " << Megabytes(after_.bytes) << " of weights, " << Fixed(after_.bits(), 2)
        << " bits per weight; before " << Megabytes(before_.bytes) << ", "
        << Fixed(before_.bits(), 2) << '\n';
  }

 private:
  void WriteConverted(const io::GgufTensor& tensor, WeightType type, Converter& converter,
                      io::GgufWriter& writer) {
    const int64_t rows = tensor.elements() / tensor.columns();
    const int64_t piece = std::max<int64_t>(1, kPieceElements / tensor.columns());
    for (int64_t first = 0; first < rows; first += piece) {
      const int64_t count = std::min(piece, rows - first);
      writer.Append(tensor.name, converter.Convert(tensor, type, first, count, totals_.at(type)));
    }
  }

  void ShowProgress(size_t tensor) {
    if (progress_ == nullptr) return;
    *progress_ << "\r\x1b[K[" << tensor + 1 << '/' << file_.tensors().size() << "] "
               << file_.tensors()[tensor].name << ' ' << NameOf(plan_.types[tensor]) << std::flush;
  }

  const io::GgufFile& file_;
  const QuantizeRequest& request_;
  const QuantizePlan plan_;
  std::ostream* const progress_;
  std::map<WeightType, Total> totals_;
  Sums before_;
  Sums after_;
};

int ThreadsFor(const QuantizeRequest& request) {
  if (request.threads > 0) return request.threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

void AddQuantizeOptions(CLI::App& command, QuantizeRequest& request) {
  command.add_option("IN", request.in, "The GGUF file to read")->required();
  command.add_option("OUT", request.out, "The GGUF file to write")->required();
  command.add_option("TYPE", request.recipe, StrCat("Type or mix: ", QuantizeRecipes()))
      ->required();
  command.add_option("--tensor", request.tensors,
                     "PATTERN=TYPE: another type for tensors of that name, where * stands for any "
                     "text; may be given several times, the last one that fits counts");
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
