// A model as Hugging Face's libraries save it: a directory with config.json, the tensors in one or
// several safetensors files, and mostly tokenizer.json.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thinwire/infer/convert_json.h"
#include "thinwire/io/safetensors.h"

namespace thinwire::infer {

class ModelDirectory {
 public:
  // Reads config.json and the headers of the safetensors files. Throws UsageError naming the file
  // when something is missing or malformed: weights in another form, a tensor in two files, an
  // index that names a tensor or file that is not there.
  ModelDirectory(io::FileSystem& fs, std::string path);

  const std::string& path() const { return path_; }
  const JsonView& config() const { return *config_view_; }
  // Another JSON file of the directory; null when there is none.
  std::unique_ptr<Json> FindJson(const std::string& name) const;
  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }
  bool Has(const std::string& file) const;
  std::string ReadText(const std::string& name) const;

  std::vector<std::string> tensors() const;  // names, sorted
  const io::TensorInfo* FindTensor(const std::string& name) const;
  // All of its bytes.
  std::vector<std::byte> Read(const std::string& name) const;
  // The file that a tensor is in, for messages.
  const std::string& FileOf(const std::string& name) const;

 private:
  struct Place {
    const io::SafetensorsFile* file;
    const io::TensorInfo* info;
  };

  void Open(const std::string& name);
  void OpenIndexed(const std::string& index);

  io::FileSystem& fs_;
  std::string path_;
  std::vector<std::string> names_;  // files of the directory, sorted
  Json config_;
  std::unique_ptr<JsonView> config_view_;
  std::vector<std::unique_ptr<io::SafetensorsFile>> files_;
  std::map<std::string, Place> places_;
};

}  // namespace thinwire::infer
