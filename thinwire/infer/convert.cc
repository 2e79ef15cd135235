#include "thinwire/infer/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <span>

#include "thinwire/base/dtype.h"
#include "thinwire/base/error.h"
#include "thinwire/infer/convert_families.h"
#include "thinwire/infer/convert_source.h"
#include "thinwire/infer/convert_tokenizer.h"
#include "thinwire/io/gguf_writer.h"
#include "thinwire/kernels/convert.h"

namespace thinwire::infer {
namespace {

constexpr size_t kPieceElements = 1 << 20;

// What general.file_type says of the most common type of matrices.
uint32_t FileTypeOf(WeightType type) {
  return type == WeightType::kF32 ? 0 : type == WeightType::kF16 ? 1 : 32;
}

DType DTypeOf(WeightType type) {
  return type == WeightType::kF32   ? DType::kF32
         : type == WeightType::kF16 ? DType::kF16
                                    : DType::kBF16;
}

WeightType SourceType(const ModelDirectory& model, const io::TensorInfo& info) {
  switch (info.type) {
    case io::TensorType::kF32:
      return WeightType::kF32;
    case io::TensorType::kF16:
      return WeightType::kF16;
    case io::TensorType::kBF16:
      return WeightType::kBF16;
    default:
      throw UsageError(StrCat(model.FileOf(info.name), ": tensor \"", info.name, "\": ",
                              NameOf(info.type), " is not converted; F32, F16 and BF16 are"));
  }
}

struct Planned {
  const TensorRule* rule;
  const io::TensorInfo* info;
  WeightType from;
  WeightType to;
};

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t extent : shape) text += StrCat(text.empty() ? "" : ", ", extent);
  return StrCat('[', text, ']');
}

// The rules whose tensors are there, checked against each other.
std::vector<Planned> Plan(const ModelDirectory& model, const Family& family,
                          const ConvertOptions& options) {
  std::vector<Planned> plan;
  std::set<std::string> used;
  for (const TensorRule& rule : family.tensors) {
    const io::TensorInfo* info = model.FindTensor(rule.source);
    if (info == nullptr && rule.optional) continue;
    if (info == nullptr) {
      throw UsageError(StrCat(model.path(), ": tensor \"", rule.source, "\" is missing"));
    }
    if (info->shape != rule.shape) {
      throw UsageError(StrCat(model.FileOf(rule.source), ": tensor \"", rule.source, "\": shape ",
                              ShapeText(rule.shape), " expected by config.json, found ",
                              ShapeText(info->shape)));
    }
    const WeightType from = SourceType(model, *info);
    const bool exact = rule.exact || rule.shape.size() < 2;
    plan.push_back({&rule, info, from, exact ? WeightType::kF32 : options.type.value_or(from)});
    used.insert(rule.source);
  }
  for (const std::string& name : model.tensors()) {
    const bool left_out = std::ranges::any_of(
        family.left_out, [&](const std::string& end) { return name.ends_with(end); });
    if (!left_out && !used.contains(name)) {
      throw UsageError(StrCat(model.FileOf(name), ": tensor \"", name, "\" has no place in a ",
                              family.architecture, " model; it is not converted"));
    }
  }
  return plan;
}

std::vector<int64_t> TargetShape(const TensorRule& rule) {
  std::vector<int64_t> shape = rule.shape;
  if (rule.order == RowOrder::kTransposed) std::swap(shape[0], shape[1]);
  if (rule.order == RowOrder::kBehindTwo) shape[0] -= 2;
  return shape;
}

// Row `to` of the result is row OriginOf(to) of the source.
int64_t OriginOf(const TensorRule& rule, int64_t to) {
  if (rule.order == RowOrder::kBehindTwo) return to + 2;
  if (rule.order != RowOrder::kNeighbours) return to;
  const int64_t head = rule.shape[0] / rule.heads;
  const int64_t within = to % head;
  return to - within + within / 2 + (within % 2) * (head / 2);
}

template <typename T>
std::vector<std::byte> Transposed(std::span<const std::byte> bytes, size_t rows, size_t columns) {
  std::vector<std::byte> result(bytes.size());
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      std::memcpy(&result[(c * rows + r) * sizeof(T)], &bytes[(r * columns + c) * sizeof(T)],
                  sizeof(T));
    }
  }
  return result;
}

// The tensor in the order that GGUF has it in, still in the source's type.
std::vector<std::byte> ReadOrdered(const ModelDirectory& model, const Planned& planned) {
  const TensorRule& rule = *planned.rule;
  std::vector<std::byte> bytes = model.Read(rule.source);
  if (rule.order == RowOrder::kSame) return bytes;
  if (rule.order == RowOrder::kTransposed) {
    const auto rows = static_cast<size_t>(rule.shape[0]);
    const auto columns = static_cast<size_t>(rule.shape[1]);
    return planned.from == WeightType::kF32 ? Transposed<uint32_t>(bytes, rows, columns)
                                            : Transposed<uint16_t>(bytes, rows, columns);
  }
  const auto row_bytes = bytes.size() / static_cast<size_t>(rule.shape[0]);
  const int64_t rows = TargetShape(rule)[0];
  std::vector<std::byte> result(static_cast<size_t>(rows) * row_bytes);
  for (int64_t to = 0; to < rows; ++to) {
    const auto origin = static_cast<size_t>(OriginOf(rule, to));
    std::memcpy(&result[static_cast<size_t>(to) * row_bytes], &bytes[origin * row_bytes],
                row_bytes);
  }
  return result;
}

// fp16 ends at 65504; what is above it must not silently become inf.
void CheckFits(const ModelDirectory& model, const Planned& planned,
               std::span<const std::byte> piece, std::span<const std::byte> converted) {
  if (planned.to != WeightType::kF16 || planned.from == WeightType::kF16) return;
  const size_t size = planned.from == WeightType::kF32 ? sizeof(float) : sizeof(BF16);
  for (size_t i = 0; i < converted.size() / sizeof(FP16); ++i) {
    FP16 half;
    std::memcpy(&half, &converted[i * sizeof half], sizeof half);
    if (!std::isinf(ToFloat(half))) continue;
    float source = 0;  // a bf16 is the upper half of an fp32
    std::memcpy(reinterpret_cast<std::byte*>(&source) + (sizeof source - size), &piece[i * size],
                size);
    if (std::isinf(source)) continue;
    throw UsageError(StrCat(model.FileOf(planned.rule->source), ": tensor \"", planned.rule->source,
                            "\": ", source, " does not fit F16; choose BF16 or F32"));
  }
}

void Append(const ModelDirectory& model, const Planned& planned, io::GgufWriter& writer) {
  const std::vector<std::byte> bytes = ReadOrdered(model, planned);
  if (planned.from == planned.to) return writer.Append(planned.rule->target, bytes);
  const DType from = DTypeOf(planned.from), to = DTypeOf(planned.to);
  const auto from_size = static_cast<size_t>(SizeOf(from)),
             to_size = static_cast<size_t>(SizeOf(to));
  std::vector<std::byte> converted(kPieceElements * to_size);
  const size_t elements = bytes.size() / from_size;
  for (size_t begin = 0; begin < elements; begin += kPieceElements) {
    const size_t count = std::min(kPieceElements, elements - begin);
    const auto piece = std::span(bytes).subspan(begin * from_size, count * from_size);
    const auto target = std::span(converted).first(count * to_size);
    const auto size = static_cast<int64_t>(count);
    kernels::Convert({}, {piece.data(), from, size}, {target.data(), to, size});
    CheckFits(model, planned, piece, target);
    writer.Append(planned.rule->target, target);
  }
}

std::string NameOfModel(const ModelDirectory& model) {
  if (const auto name = model.config().FindText("_name_or_path"); name && !name->empty()) {
    return name->substr(name->rfind('/') + 1);
  }
  const std::string path = model.path().substr(0, model.path().find_last_not_of('/') + 1);
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

Conversion ConvertHuggingFace(io::FileSystem& fs, const std::string& directory,
                              const std::string& output, const ConvertOptions& options) {
  const ModelDirectory model(fs, directory);
  io::GgufWriter writer(fs, output);
  const Family family = DescribeFamily(model, writer);
  const std::vector<Planned> plan = Plan(model, family, options);
  writer.Set<std::string_view>("general.name", NameOfModel(model));
  writer.Set("general.file_type", FileTypeOf(plan.front().to));
  const int64_t tokens = DescribeTokenizer(model, family.vocabulary, options.pre_tokenizer, writer);

  const std::string factors = "rope_freqs.weight";
  if (!family.frequency_factors.empty()) {
    writer.Declare(factors, WeightType::kF32,
                   {static_cast<int64_t>(family.frequency_factors.size())});
  }
  for (const Planned& planned : plan) {
    writer.Declare(planned.rule->target, planned.to, TargetShape(*planned.rule));
  }
  writer.Begin();
  if (!family.frequency_factors.empty()) {
    writer.Append(factors, std::as_bytes(std::span(family.frequency_factors)));
  }
  for (const Planned& planned : plan) Append(model, planned, writer);
  writer.Finish();
  return {.architecture = family.architecture,
          .tensors = static_cast<int64_t>(plan.size()) + !family.frequency_factors.empty(),
          .tokens = tokens,
          .bytes = writer.bytes()};
}

}  // namespace thinwire::infer
