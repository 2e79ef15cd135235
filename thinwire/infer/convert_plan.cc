#include "thinwire/infer/convert_plan.h"

#include <algorithm>
#include <map>

#include "thinwire/base/error.h"
#include "thinwire/infer/convert_bytes.h"
#include "thinwire/infer/convert_tokenizer.h"
#include "thinwire/infer/quantize_plan.h"
#include "thinwire/io/gguf.h"

namespace thinwire::infer {
namespace {

// What general.file_type says of the most common type of matrices.
uint32_t FileTypeOf(WeightType type) {
  return type == WeightType::kF32 ? 0 : type == WeightType::kF16 ? 1 : 32;
}

WeightType SourceType(const ModelSource& model, const io::TensorInfo& info) {
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

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t extent : shape) text += StrCat(text.empty() ? "" : ", ", extent);
  return StrCat('[', text, ']');
}

std::vector<int64_t> TargetShape(const TensorRule& rule) {
  std::vector<int64_t> shape = rule.shape;
  if (rule.order == RowOrder::kTransposed) std::swap(shape[0], shape[1]);
  if (rule.order == RowOrder::kBehindTwo) shape[0] -= 2;
  return shape;
}

bool IsExact(const TensorRule& rule) { return rule.exact || rule.shape.size() < 2; }

// The rules whose tensors are there, checked against each other.
std::vector<TensorPlan> PlanTensors(const ModelSource& model, const Family& family) {
  std::vector<TensorPlan> plan;
  std::map<std::string, size_t> place;  // in the source
  for (const std::string& name : model.tensors()) place.emplace(name, place.size());
  std::map<std::string, bool> used;
  for (const TensorRule& rule : family.tensors) {
    const io::TensorInfo* info = model.FindTensor(rule.source);
    if (info == nullptr && rule.optional) continue;
    if (info == nullptr) {
      throw UsageError(StrCat(model.name(), ": tensor \"", rule.source, "\" is missing"));
    }
    const std::string where = StrCat(model.FileOf(rule.source), ": tensor \"", rule.source, '"');
    if (info->shape != rule.shape) {
      throw UsageError(StrCat(where, ": shape ", ShapeText(rule.shape),
                              " expected by config.json, found ", ShapeText(info->shape)));
    }
    const WeightType from = SourceType(model, *info);
    plan.push_back({rule, from, IsExact(rule) ? WeightType::kF32 : from, TargetShape(rule), where});
    used[rule.source] = true;
  }
  for (const std::string& name : model.tensors()) {
    const bool left_out = std::ranges::any_of(
        family.left_out, [&](const std::string& end) { return name.ends_with(end); });
    if (!left_out && !used.contains(name)) {
      throw UsageError(StrCat(model.FileOf(name), ": tensor \"", name, "\" has no place in a ",
                              family.architecture, " model; it is not converted"));
    }
  }
  std::ranges::stable_sort(plan, {},
                           [&](const TensorPlan& tensor) { return place.at(tensor.rule.source); });
  return plan;
}

// Gives matrices the types of a recipe.
QuantizePlan ApplyRecipe(const std::string& recipe, std::vector<TensorPlan>& tensors) {
  std::vector<io::GgufTensor> described;
  for (const TensorPlan& tensor : tensors) {
    io::GgufTensor& each = described.emplace_back();
    each.name = tensor.rule.target;
    each.type = tensor.to;
    each.rank = tensor.shape.size();
    std::ranges::copy(tensor.shape, each.extents.begin());
  }
  QuantizePlan plan = PlanQuantize(described, recipe, {});
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!IsExact(tensors[i].rule)) tensors[i].to = plan.types[i];
  }
  return plan;
}

std::string NameOfModel(const ModelSource& model) {
  if (const auto name = model.config().FindText("_name_or_path"); name && !name->empty()) {
    return name->substr(name->rfind('/') + 1);
  }
  const std::string path = model.name().substr(0, model.name().find_last_not_of('/') + 1);
  return path.substr(path.rfind('/') + 1);
}

int64_t DescribeTokens(const ModelSource& source, int64_t vocabulary, const ConvertOptions& options,
                       io::GgufWriter& writer) {
  if (options.tokenizer.empty()) {
    return DescribeTokenizer(source, vocabulary, options.pre_tokenizer, writer);
  }
  if (options.tokenizer == "bytes") return DescribeBytes(vocabulary, writer);
  return CopyTokenizer(io::GgufFile(options.tokenizer), vocabulary, writer);
}

}  // namespace

ConversionPlan PlanConversion(const ModelSource& source, const ConvertOptions& options,
                              io::GgufWriter& writer) {
  Family family = DescribeFamily(source, writer);
  ConversionPlan plan{.architecture = family.architecture,
                      .tensors = PlanTensors(source, family),
                      .frequency_factors = std::move(family.frequency_factors)};
  uint32_t file_type = FileTypeOf(plan.tensors.front().from);
  if (!options.type.empty()) {
    QuantizePlan quantized = ApplyRecipe(options.type, plan.tensors);
    file_type = quantized.file_type;
    plan.notes = std::move(quantized.notes);
  }
  writer.Set<std::string_view>("general.name", NameOfModel(source));
  writer.Set("general.file_type", file_type);
  plan.tokens = DescribeTokens(source, family.vocabulary, options, writer);
  if (!plan.frequency_factors.empty()) {
    writer.Declare(kFrequencyFactors, WeightType::kF32,
                   {static_cast<int64_t>(plan.frequency_factors.size())});
  }
  for (const TensorPlan& tensor : plan.tensors) {
    writer.Declare(tensor.rule.target, tensor.to, tensor.shape);
  }
  return plan;
}

}  // namespace thinwire::infer
