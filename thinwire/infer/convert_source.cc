#include "thinwire/infer/convert_source.h"

#include <algorithm>
#include <set>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::infer {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr int64_t kMostText = int64_t{1} << 24;

}  // namespace

ModelDirectory::ModelDirectory(io::FileSystem& fs, std::string path)
    : fs_(fs), path_(std::move(path)), names_(io::ListDirectory(fs, path_)) {
  if (!Has(kConfig)) {
    throw UsageError(StrCat(path_, ": no ", kConfig,
                            " in it; a directory with a model as Hugging Face's libraries save it "
                            "expected"));
  }
  config_ = ReadJsonObject(fs_, PathOf(kConfig));
  config_view_ = std::make_unique<JsonView>(PathOf(kConfig), config_);
  if (Has(kSingle)) {
    Open(kSingle);
  } else if (Has(kIndex)) {
    OpenIndexed(kIndex);
  } else {
    throw UsageError(StrCat(path_, ": neither ", kSingle, " nor ", kIndex,
                            " in it; other forms of weights are not read: save the model with "
                            "safetensors"));
  }
}

bool ModelDirectory::Has(const std::string& file) const {
  return std::ranges::binary_search(names_, file);
}

std::unique_ptr<Json> ModelDirectory::FindJson(const std::string& name) const {
  if (!Has(name)) return nullptr;
  return std::make_unique<Json>(ReadJsonObject(fs_, PathOf(name)));
}

std::string ModelDirectory::ReadText(const std::string& name) const {
  return io::ReadFile(fs_, PathOf(name), kMostText);
}

void ModelDirectory::Open(const std::string& name) {
  const auto& file = *files_.emplace_back(std::make_unique<io::SafetensorsFile>(fs_, PathOf(name)));
  for (const io::TensorInfo& info : file.tensors()) {
    const auto [place, is_new] = places_.try_emplace(info.name, Place{&file, &info});
    if (!is_new) {
      throw UsageError(StrCat(file.path(), ": tensor \"", info.name, "\" is in ",
                              place->second.file->path(), ", too"));
    }
  }
}

void ModelDirectory::OpenIndexed(const std::string& index) {
  const Json json = ReadJsonObject(fs_, PathOf(index));
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

}  // namespace thinwire::infer
