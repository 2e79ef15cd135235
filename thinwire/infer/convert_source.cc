#include "thinwire/infer/convert_source.h"

#include <algorithm>
#include <set>
#include <utility>

#include "thinwire/base/checked.h"
#include "thinwire/base/error.h"

namespace thinwire::infer {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr int64_t kMostText = int64_t{1} << 24;

}  // namespace

ModelSource::ModelSource(io::FileSystem& fs, std::string name, std::string directory)
    : fs_(fs), name_(std::move(name)), directory_(std::move(directory)) {
  if (!directory_.empty()) files_ = io::ListDirectory(fs, directory_);
}

void ModelSource::SetConfig(std::string where, Json config) {
  config_ = std::move(config);
  config_view_ = std::make_unique<JsonView>(std::move(where), config_);
}

bool ModelSource::Has(const std::string& file) const {
  return std::ranges::binary_search(files_, file);
}

std::unique_ptr<Json> ModelSource::FindJson(const std::string& file) const {
  if (!Has(file)) return nullptr;
  return std::make_unique<Json>(ReadJsonObject(fs_, PathOf(file)));
}

std::string ModelSource::ReadText(const std::string& file) const {
  return io::ReadFile(fs_, PathOf(file), kMostText);
}

ModelDirectory::ModelDirectory(io::FileSystem& fs, const std::string& path)
    : ModelSource(fs, path, path) {
  if (!Has(kConfig)) {
    throw UsageError(StrCat(path, ": no ", kConfig,
                            " in it; a directory with a model as Hugging Face's libraries save it "
                            "expected"));
  }
  SetConfig(PathOf(kConfig), ReadJsonObject(fs, PathOf(kConfig)));
  if (Has(kSingle)) {
    Open(kSingle);
  } else if (Has(kIndex)) {
    OpenIndexed(kIndex);
  } else {
    throw UsageError(StrCat(path, ": neither ", kSingle, " nor ", kIndex,
                            " in it; other forms of weights are not read: save the model with "
                            "safetensors"));
  }
}

void ModelDirectory::Open(const std::string& name) {
  const auto& file =
      *files_.emplace_back(std::make_unique<io::SafetensorsFile>(fs(), PathOf(name)));
  for (const io::TensorInfo& info : file.tensors()) {
    const auto [place, is_new] = places_.try_emplace(info.name, Place{&file, &info});
    if (!is_new) {
      throw UsageError(StrCat(file.path(), ": tensor \"", info.name, "\" is in ",
                              place->second.file->path(), ", too"));
    }
  }
}

void ModelDirectory::OpenIndexed(const std::string& index) {
  const Json json = ReadJsonObject(fs(), PathOf(index));
  const JsonView view(PathOf(index), json);
  const auto map = view.FindObject("weight_map");
  if (!map) view.Fail("weight_map", "is missing");
  std::set<std::string> files;
  for (const auto& [tensor, file] : map->json().items()) {
    if (!file.is_string() || !Has(file.get<std::string>())) {
      map->Fail(tensor, "a file of the directory expected");
    }
    files.insert(file.get<std::string>());
  }
  for (const std::string& file : files) Open(file);
  for (const auto& [tensor, file] : map->json().items()) {
    if (FindTensor(tensor) == nullptr) map->Fail(tensor, "the tensor is in none of the files");
  }
}

std::vector<std::string> ModelDirectory::tensors() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : places_) names.push_back(name);
  return names;
}

const io::TensorInfo* ModelDirectory::FindTensor(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : found->second.info;
}

const std::string& ModelDirectory::FileOf(const std::string& name) const {
  return places_.at(name).file->path();
}

std::vector<std::byte> ModelDirectory::Read(const std::string& name) const {
  const Place& place = places_.at(name);
  std::vector<std::byte> bytes(static_cast<size_t>(place.info->bytes));
  place.file->Read(*place.info, 0, bytes);
  return bytes;
}

DescribedModel::DescribedModel(io::FileSystem& fs, ModelDescription description)
    : ModelSource(fs, std::move(description.name), std::move(description.directory)) {
  Json config = Json::parse(description.config, nullptr, /*allow_exceptions=*/false);
  const std::string where = name() + ": config";
  if (!config.is_object()) throw UsageError(where + ": a JSON object expected");
  SetConfig(where, std::move(config));
  for (ModelDescription::Tensor& tensor : description.tensors) {
    io::TensorInfo info{.name = tensor.name, .shape = std::move(tensor.shape)};
    info.bytes = CheckedMul(CheckedNumel(info.shape, info.name), int64_t{sizeof(float)}, info.name);
    order_.push_back(tensor.name);
    if (!tensors_.emplace(std::move(tensor.name), std::move(info)).second) {
      throw UsageError(StrCat(name(), ": tensor \"", order_.back(), "\" is there twice"));
    }
  }
}

const io::TensorInfo* DescribedModel::FindTensor(const std::string& tensor) const {
  const auto found = tensors_.find(tensor);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace thinwire::infer
